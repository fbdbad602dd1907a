"""Retention: whole hours expire, oldest first, up to the first needed one.

So the remaining places of an origin are all those after one mark.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from broker.archive.layout import partition_may_match
from broker.archive.manifest import Range
from broker.archive.manifest_entry import ArchivedFile
from broker.event.flow import origin_of
from broker.event.place import Mark, Position
from broker.event.stream import StreamPattern

_DAY: Final = 86_400_000


@attrs.frozen
class Retention:
    """Limits of the archive; 0 means no limit."""

    age_ms: int = 0
    """Hours whose newest event is older expire."""
    max_bytes: int = 0
    """The oldest hours expire until all files together are within this size."""
    max_events: int = 0
    """The same for the number of events."""
    hard_age_ms: int = 90 * _DAY
    """Older hours expire even if a durable subscription needs them. 0 means never."""


@attrs.frozen
class DurableNeed:
    """The unprocessed part of a durable subscription."""

    pattern: StreamPattern
    position: Position

    def may_need(self, file: ArchivedFile) -> bool:
        if file.streams is not None:
            may_match = any(map(self.pattern.matches, file.streams))
        else:
            may_match = partition_may_match(file.partition, self.pattern)
        if not may_match:
            return False
        # The slowest flow of an origin counts.
        marks: dict[str, Mark] = {}
        for flow, mark in self.position.marks.items():
            marks[origin_of(flow)] = min(mark, marks.get(origin_of(flow), mark))
        return any(last > marks.get(o, (0, 0)) for o, (_, last) in file.spans.items())


@attrs.frozen
class ExpiredHours:
    files: tuple[ArchivedFile, ...]
    held_hour: str
    """The hour that is kept for a durable subscription; "" if there is none."""

    @property
    def forgotten_ranges(self) -> list[Range]:
        """Places no longer covered: all up to the last one, by origin."""
        last: dict[str, Mark] = {}
        for file in self.files:
            for origin, (_, mark) in file.spans.items():
                last[origin] = max(mark, last.get(origin, mark))
        return [(origin, (0, 0), mark) for origin, mark in sorted(last.items())]


def find_expired_hours(
    files: Iterable[ArchivedFile], retention: Retention, needed: Sequence[DurableNeed], now: int
) -> ExpiredHours:
    """Return the files that expire now.

    `files` includes those set aside; `now` is in ms since 1970.
    """
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
