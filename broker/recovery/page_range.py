"""Ranges of places, and the start and end of a page."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from broker.delivery.recovery_contract import MarkRange
from broker.event.place import Mark
from broker.log.damage import Damage
from broker.log.logged_event import LoggedEvent


def read_start_marks(
    ranges: Mapping[str, MarkRange], covered: Mapping[str, Mark]
) -> dict[str, Mark]:
    """Return the marks to read after. All events of other origins are skipped."""
    return {
        origin: ranges[origin][0] if origin in ranges else mark for origin, mark in covered.items()
    }


def split_before_missing(
    after: Mark, events: list[LoggedEvent], upto: Mark | None
) -> tuple[list[LoggedEvent], Mark | None]:
    """Return a replica's events up to the first missing offset, and the mark where it continues.

    The log has lost the missing ones (`broker.log.history`): they may match.
    """
    offset = after[1]
    for index, event in enumerate(events):
        if upto is not None and event.mark > upto:
            break
        if event.offset > offset + 1:
            return events[:index], (event.epoch, event.offset - 1)
        offset = event.offset
    return events, None


def marks_of_events(
    events: Sequence[LoggedEvent],
    ranges: Mapping[str, MarkRange],
    lost_branches: Collection[str] = (),
) -> dict[str, Mark]:
    """Return the last mark of the events by origin.

    A range that ends on a lost branch ends at its own events, as later ones are of another branch.
    """
    passed: dict[str, Mark] = {}
    for event in events:
        if event.origin in ranges:
            upto = ranges[event.origin][1]
            if upto is None or event.mark <= upto:
                passed[event.origin] = event.mark
            elif event.origin not in lost_branches:
                passed[event.origin] = upto
    return passed


def marks_before_damage(damage: Damage, ranges: Mapping[str, MarkRange]) -> dict[str, Mark]:
    passed: dict[str, Mark] = {}
    for span in damage.spans:
        if span.origin in ranges:
            after, upto = ranges[span.origin]
            mark = span.after if upto is None else min(span.after, upto)
            if mark > after:
                passed[span.origin] = mark
    return passed


def marks_at_end(ranges: Mapping[str, MarkRange], covered: Mapping[str, Mark]) -> dict[str, Mark]:
    return {
        origin: covered[origin] if upto is None else min(upto, covered[origin])
        for origin, (_, upto) in ranges.items()
        if origin in covered
    }
