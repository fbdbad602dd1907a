"""Interval index: members by elementary segments of the number line (F5).

Within a segment between two bounds the matching members are constant, so each segment lists them.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from broker.matching.index.bitmap_index import Overflow
from broker.matching.index.comparison import compile_comparison
from broker.matching.index.member import Columns, Member, ResultCache, RowMatches
from broker.matching.index.parameter import Operator, Parameter, find_windows
from broker.matching.index.shrinking_dict import ShrinkingDict

#: Segments of one new member. Wider members go to the overflow.
MAX_SEGMENTS = 64
#: Members of one segment, which are compared one by one. Further members go to the overflow.
MAX_SEGMENT_MEMBERS = 128
#: When a segment with more members is cut, its widest member goes to the overflow if it has too
#: many segments. So the lists stay in proportion to the members.
_EVICTION_SIZE = 16


class IntervalIndex:
    """Members by the parameters at the given positions, exactly one window among them."""

    __slots__ = (
        "_is_exact",
        "_bounds",
        "_compare",
        "_is_inclusive",
        "_overflow",
        "_segments",
        "_use_counts",
        "_window",
        "size",
    )

    def __init__(self, parameters: Mapping[int, Parameter], members: Iterable[Member] = ()) -> None:
        self._window = find_windows(parameters)[0]
        self._is_inclusive = parameters[self._window.upper].operator is Operator.LESS_EQUAL
        #: True if the window is the only thing to compare.
        self._is_exact = len(parameters) == 2
        self._compare = compile_comparison(parameters)
        #: Distinct and ascending. One segment lies before each bound, one behind the last.
        self._bounds: list[float] = []
        self._segments: list[tuple[Member, ...]] = [()]
        #: The number of windows for each bound.
        self._use_counts = ShrinkingDict[float, int]()
        self._overflow = Overflow(parameters)
        self.size = 0
        for member in members:
            self.add(member)

    def add(self, member: Member) -> None:
        self.size += 1
        member.partition = None
        low, high = self._bounds_of(member)
        if not -math.inf < low < high < math.inf:
            # The window is empty or unbounded.
            self._overflow.add(member)
            return
        self._add_bound(low)
        self._add_bound(high)
        first, behind = self._segment_range(low, high)
        listed = max(map(len, self._segments[first:behind]), default=0)
        if behind - first > MAX_SEGMENTS or listed >= MAX_SEGMENT_MEMBERS:
            self._remove_bound(low)
            self._remove_bound(high)
            self._overflow.add(member)
            return
        self._segments[first:behind] = [(*each, member) for each in self._segments[first:behind]]

    def remove(self, member: Member) -> None:
        self.size -= 1
        if not self._overflow.discard(member):
            self._remove_from_segments(member, *self._bounds_of(member))

    def list_members(self) -> list[Member]:
        listed = {member: None for segment in self._segments for member in segment}
        return [*listed, *self._overflow.list_members()]

    @property
    def window_position(self) -> int:
        return self._window.lower

    def find_candidates(self, value: float) -> tuple[Member, ...] | None:
        """Return the members to compare for a value, None if that needs `match_rows`."""
        return None if self._overflow else self._segments[bisect_right(self._bounds, value)]

    def match_rows(self, columns: Columns, rows: int, _cache: ResultCache = None) -> RowMatches:
        found: list[tuple[int, Sequence[Member]]] = []
        bounds, segments = self._bounds, self._segments
        hits = [
            (row, members)
            for row, value in enumerate(columns[self._window.lower])
            if (members := segments[bisect_right(bounds, value)])
        ]
        if self._is_exact:
            # Only a value equal to a bound may not match a listed member.
            uses, values = self._use_counts, columns[self._window.lower]
            found += [hit for hit in hits if values[hit[0]] not in uses]
            hits = [hit for hit in hits if values[hit[0]] in uses]
        if hits:
            self._compare(hits, columns, found)
        found += self._overflow.match_rows(columns, rows)
        return found

    def _bounds_of(self, member: Member) -> tuple[float, float]:
        """Return the first value that may be in the window, and the first beyond it."""
        literals, window = member.literals, self._window
        low, high = cast(float, literals[window.lower]), cast(float, literals[window.upper])
        return low, math.nextafter(high, math.inf) if self._is_inclusive else high

    def _segment_range(self, low: float, high: float) -> tuple[int, int]:
        """Return the first segment of a window, and the one behind its last."""
        # A bound itself belongs to the segment behind it.
        return bisect_left(self._bounds, low) + 1, bisect_left(self._bounds, high) + 1

    def _add_bound(self, bound: float) -> None:
        uses = self._use_counts.get(bound, 0)
        self._use_counts[bound] = uses + 1
        if uses:
            return
        at = bisect_left(self._bounds, bound)
        if len(self._segments[at]) > _EVICTION_SIZE:
            self._evict_widest(at)
            at = bisect_left(self._bounds, bound)
        self._bounds.insert(at, bound)
        self._segments.insert(at, self._segments[at])

    def _remove_bound(self, bound: float) -> None:
        """Remove a bound for one window; without windows the segments on both sides are equal."""
        self._use_counts[bound] -= 1
        if not self._use_counts[bound]:
            del self._use_counts[bound]
            at = bisect_left(self._bounds, bound)
            del self._bounds[at], self._segments[at]

    def _evict_widest(self, at: int) -> None:
        reaches = {
            member: self._segment_range(*self._bounds_of(member)) for member in self._segments[at]
        }
        widest = max(reaches, key=lambda member: reaches[member][1] - reaches[member][0])
        first, behind = reaches[widest]
        if behind - first > MAX_SEGMENTS:
            self._remove_from_segments(widest, *self._bounds_of(widest))
            self._overflow.add(widest)

    def _remove_from_segments(self, member: Member, low: float, high: float) -> None:
        first, behind = self._segment_range(low, high)
        self._segments[first:behind] = [
            tuple([each for each in segment if each is not member])
            for segment in self._segments[first:behind]
        ]
        self._remove_bound(low)
        self._remove_bound(high)
