"""Ranges of places and the events of a page: where a page begins, and up to where it goes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from broker.delivery.recovery import MarkRange
from broker.event.place import Mark
from broker.log.damage import Damage
from broker.log.records import LoggedEvent


def read_start_marks(
    ranges: Mapping[str, MarkRange], covered: Mapping[str, Mark]
) -> dict[str, Mark]:
    """Behind which marks to read; of origins that are not wanted there is nothing behind them."""
    return {
        origin: ranges[origin][0] if origin in ranges else mark for origin, mark in covered.items()
    }


def split_before_missing(
    after: Mark, events: list[LoggedEvent], upto: Mark | None
) -> tuple[list[LoggedEvent], Mark | None]:
    """The copies behind a mark up to the first offset that is missing, and where they go on.

    A log gives its events offsets without a hole, but for those of events that it has lost
    (`broker.log.histories`): nobody may take these places for ones at which nothing matches.
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
    """Up to where these events go, by origin. A range that ends on a lost branch of its origin goes
    no further than its own events: those behind it are of another branch."""
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
    """Where the damage begins, by origin: this log has nothing of the damage itself."""
    passed: dict[str, Mark] = {}
    for span in damage.spans:
        if span.origin in ranges:
            after, upto = ranges[span.origin]
            mark = span.after if upto is None else min(span.after, upto)
            if mark > after:
                passed[span.origin] = mark
    return passed


def marks_at_end(ranges: Mapping[str, MarkRange], covered: Mapping[str, Mark]) -> dict[str, Mark]:
    """Up to where the ranges were looked at, at the end of a log that goes so far."""
    return {
        origin: covered[origin] if upto is None else min(upto, covered[origin])
        for origin, (_, upto) in ranges.items()
        if origin in covered
    }
