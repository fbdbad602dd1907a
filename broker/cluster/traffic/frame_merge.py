"""Merge two parts of a frame for one neighbour, so that each event crosses the link once."""

from __future__ import annotations

from itertools import groupby

import attrs

from broker.cluster.traffic.frame import (
    MAX_DESTINATIONS,
    Frame,
    encode_level_runs,
    encode_mark_runs,
)
from broker.cluster.traffic.frame_content import MAX_BODY_BYTES, PLAIN
from broker.event.place import Mark


def merge_frames(one: Frame, other: Frame) -> Frame | None:
    """Return None if the frame would be too large, or have two statements. Both are of one
    origin."""
    if one.statement is not None and other.statement is not None:
        return None
    statement = one.statement or other.statement
    if len(one.ranges) + len(other.ranges) > MAX_DESTINATIONS:
        return None
    recipients: dict[Mark, tuple[int, ...]] = {}
    for frame, first in ((one, 0), (other, len(one.ranges))):
        marks = iter(frame.marks())
        for count, indices in frame.recipient_runs:
            shifted = tuple([first + index for index in indices])
            for _ in range(count):
                mark = next(marks)
                recipients[mark] = recipients.get(mark, ()) + shifted
    order = sorted(recipients)
    runs = [(len(list(group)), each) for each, group in groupby(recipients[mark] for mark in order)]
    hops, ranges = min(one.hops, other.hops), [*one.ranges, *other.ranges]
    for frame in (one, other):
        if frame.event_count == len(order):
            return attrs.evolve(
                frame, hops=hops, ranges=ranges, recipient_runs=runs, statement=statement
            )
    events = {
        each.mark: each
        for frame in (one, other)
        for each in frame.events_at(range(frame.event_count))
    }
    carried = [events[mark] for mark in order]
    lengths = [len(each.document) for each in carried]
    if sum(lengths) > MAX_BODY_BYTES:
        return None
    return attrs.evolve(
        one,
        hops=hops,
        ranges=ranges,
        recipient_runs=runs,
        level_runs=encode_level_runs([each.level for each in carried]),
        mark_runs=encode_mark_runs(order),
        encoding=PLAIN,
        record_lengths=[len(each.record) for each in carried],
        document_lengths=lengths,
        records=b"".join([each.record for each in carried]),
        body=b"".join([each.document for each in carried]),
        statement=statement,
    )
