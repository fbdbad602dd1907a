"""Messages that a site of a group has logged and delivered, by their sites and numbers.

A site tells them to the others, and a node to its clients. All tables are bounded: of what is
dropped nothing is known any more.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, TypeAlias

import attrs

#: Sites whose messages a table has; those of further sites are not recorded.
MOST_SITES: Final = 64
#: Of one site; the lowest go.
MOST_INCARNATIONS: Final = 4
#: Ranges of missing messages of one incarnation; messages up to the lowest range go.
MOST_RANGES: Final = 16

#: The first and the last number.
Range: TypeAlias = tuple[int, int]


class Arrival(enum.Enum):
    """State of one message at a site."""

    DELIVERED = "delivered"
    MISSING = "missing"
    """It will not come."""
    EXPECTED = "expected"
    UNKNOWN = "unknown"
    """It is too old."""


@attrs.frozen
class CoveredMessages:
    """Messages `first` to `last` of one incarnation of a site: a site has all but the missing ones.

    Raises ValueError for ranges that are not in order.
    """

    site: str
    incarnation: int
    first: int
    last: int
    missing: tuple[Range, ...] = ()

    def __attrs_post_init__(self) -> None:
        edges = [self.first, *chain.from_iterable(self.missing), self.last]
        if edges != sorted(edges):
            raise ValueError(f"{self.first} to {self.last} can not lack {self.missing}")

    def joined(self, later: CoveredMessages) -> CoveredMessages:
        """Return what is known after later news of the same incarnation."""
        if later.first > self.last + 1:
            # Between them nothing is known.
            return later
        if later.last < self.first - 1:
            return self
        before = _clip(self.missing, self.first, later.first - 1)
        behind = _clip(self.missing, later.last + 1, self.last)
        ranges = list(_join_neighbours([*before, *later.missing, *behind]))
        first, last = min(self.first, later.first), max(self.last, later.last)
        if len(ranges) > MOST_RANGES:
            first = ranges[-MOST_RANGES - 1][1] + 1
        return attrs.evolve(self, first=first, last=last, missing=tuple(ranges[-MOST_RANGES:]))

    def arrival_of(self, number: int) -> Arrival:
        if number < self.first:
            return Arrival.UNKNOWN
        if number > self.last:
            return Arrival.EXPECTED
        is_missing = any(first <= number <= last for first, last in self.missing)
        return Arrival.MISSING if is_missing else Arrival.DELIVERED


class CoverageTable:
    """Messages of all sites that one site has."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[int, CoveredMessages]] = {}

    @property
    def rows(self) -> tuple[CoveredMessages, ...]:
        return tuple(row for rows in self._rows.values() for row in rows.values())

    def find(self, site: str, incarnation: int) -> CoveredMessages | None:
        return self._rows.get(site, {}).get(incarnation)

    def add(self, row: CoveredMessages) -> CoveredMessages | None:
        """Return what is known now, or None if that is as before."""
        rows = self._rows.get(row.site, {})
        if row.site not in self._rows and len(self._rows) >= MOST_SITES:
            return None
        known = rows.get(row.incarnation)
        found = row if known is None else known.joined(row)
        if found == known or (
            known is None and len(rows) >= MOST_INCARNATIONS and row.incarnation < min(rows)
        ):
            return None
        rows[row.incarnation] = found
        self._rows[row.site] = rows
        if len(rows) > MOST_INCARNATIONS:
            del rows[min(rows)]
        return found

    def remove(self, site: str, incarnation: int) -> None:
        """Forget an incarnation."""
        self._rows.get(site, {}).pop(incarnation, None)

    def arrival_of(self, site: str, incarnation: int, number: int) -> Arrival:
        rows = self._rows.get(site, {})
        row = rows.get(incarnation)
        is_over = any(each > incarnation for each in rows)
        if row is None:
            return Arrival.UNKNOWN if is_over else Arrival.EXPECTED
        found = row.arrival_of(number)
        # Messages of a later process come behind all of this one.
        return Arrival.MISSING if found is Arrival.EXPECTED and is_over else found


def _clip(ranges: Iterable[Range], lowest: int, highest: int) -> Iterator[Range]:
    """Yield the parts of ranges within bounds."""
    for first, last in ranges:
        first, last = max(first, lowest), min(last, highest)
        if first <= last:
            yield first, last


def _join_neighbours(ranges: Iterable[Range]) -> Iterator[Range]:
    waiting: Range | None = None
    for each in ranges:
        if waiting is not None and waiting[1] + 1 >= each[0]:
            waiting = waiting[0], max(waiting[1], each[1])
            continue
        if waiting is not None:
            yield waiting
        waiting = each
    if waiting is not None:
        yield waiting
