"""Frames that this node makes of events, in place of their origin node."""

from __future__ import annotations

from collections.abc import Sequence

from broker.cluster.address import Address
from broker.cluster.carried_event import as_carried_event
from broker.cluster.traffic.frame import MAX_HOPS, Frame, encode_level_runs, encode_mark_runs
from broker.cluster.traffic.frame_content import PLAIN
from broker.cluster.traffic.frame_range import Range
from broker.log.logged_event import LoggedEvent
from broker.streams.contract import CarriedEvent


def make_page_frame(
    origin: str,
    origin_node: Address,
    ranges: list[Range],
    events: Sequence[LoggedEvent | CarriedEvent],
) -> Frame:
    """Return a frame with `events` for the first range, in place of the origin node."""
    carried = [
        each if isinstance(each, CarriedEvent) else as_carried_event(each) for each in events
    ]
    frame = Frame(
        origin=origin,
        origin_node=origin_node,
        level_runs=encode_level_runs([each.level for each in carried]),
        hops=MAX_HOPS,
        ranges=ranges,
        mark_runs=encode_mark_runs([each.mark for each in carried]),
        recipient_runs=[(len(carried), (0,))] if carried else [],
        encoding=PLAIN,
        record_lengths=[len(each.record) for each in carried],
        document_lengths=[len(each.document) for each in carried],
        records=b"".join([each.record for each in carried]),
        body=b"".join([each.document for each in carried]),
    )
    frame.cache_events(carried)
    return frame


def make_local_frame(
    origin: str,
    origin_node: Address,
    range_: Range,
    events: Sequence[CarriedEvent],
) -> Frame:
    """Return a frame with `events` for a range of this node. It is not sent: nothing is encoded."""
    frame = Frame(
        origin=origin,
        origin_node=origin_node,
        level_runs=(),
        hops=0,
        ranges=[range_],
        mark_runs=(),
        recipient_runs=[(len(events), (0,))] if events else [],
        encoding=PLAIN,
        record_lengths=(),
        document_lengths=(),
        records=b"",
        body=b"",
    )
    frame.cache_events(events)
    return frame
