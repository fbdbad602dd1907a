"""What is too old: whole hours, oldest first, and none that somebody still needs.

An hour goes with all its files, so that what is left of an origin is all of it behind one mark.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from broker.archive.layout import partition_may_match
from broker.archive.manifest import Range
from broker.archive.manifest_entry import ArchivedFile
from broker.event.place import Mark, Position
from broker.event.stream import StreamPattern

_DAY: Final = 86_400_000


@attrs.frozen
class Retention:
    """How much is kept. 0: there is no such bound."""

    age_ms: int = 0
    """Hours whose newest event is older go."""
    max_bytes: int = 0
    """The oldest hours go until the files together have no more."""
    max_events: int = 0
    """The same for their events."""
    hard_age_ms: int = 90 * _DAY
    """What is older goes, whoever still needs it. 0: nothing does."""


@attrs.frozen
class DurableNeed:
    """What a durable subscription has not processed yet."""

    pattern: StreamPattern
    position: Position

    def may_need(self, file: ArchivedFile) -> bool:
        """Whether there may be something for it in a file."""
        if file.streams is not None:
            wanted = any(map(self.pattern.matches, file.streams))
        else:
            wanted = partition_may_match(file.partition, self.pattern)
        marks = self.position.marks
        return wanted and any(last > marks.get(o, (0, 0)) for o, (_, last) in file.spans.items())


@attrs.frozen
class ExpiredHours:
    """What retention takes."""

    files: tuple[ArchivedFile, ...]
    held_hour: str
    """The hour at which it stopped because somebody needs that; "" if it did not."""

    @property
    def forgotten_ranges(self) -> list[Range]:
        """The places that are not covered any more: of each origin all up to the last."""
        last: dict[str, Mark] = {}
        for file in self.files:
            for origin, (_, mark) in file.spans.items():
                last[origin] = max(mark, last.get(origin, mark))
        return [(origin, (0, 0), mark) for origin, mark in sorted(last.items())]


def find_expired_hours(
    files: Iterable[ArchivedFile], retention: Retention, needed: Sequence[DurableNeed], now: int
) -> ExpiredHours:
    """What goes now; `now` is ms since 1970. `files` are those set aside, too."""
    hours: dict[str, list[ArchivedFile]] = defaultdict(list)
    for file in files:
        hours[file.hour].append(file)
    bytes_left = sum(file.bytes for group in hours.values() for file in group)
    events_left = sum(file.rows for group in hours.values() for file in group)
    expired: list[ArchivedFile] = []
    for hour, group in sorted(hours.items()):
        newest = max(file.arrivals[1] for file in group)
        aged = 0 < retention.age_ms < now - newest
        many = 0 < retention.max_bytes < bytes_left or 0 < retention.max_events < events_left
        if not aged and not many:
            break
        hard = 0 < retention.hard_age_ms < now - newest
        if not hard and any(each.may_need(file) for each in needed for file in group):
            return ExpiredHours(tuple(expired), hour)
        expired += group
        bytes_left -= sum(file.bytes for file in group)
        events_left -= sum(file.rows for file in group)
    return ExpiredHours(tuple(expired), "")
