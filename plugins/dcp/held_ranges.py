"""Ranges of one sequence that wait for earlier ones."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

from plugins.dcp.event_range import IRange

MOST_HELD: Final = 4_096

RangeT = TypeVar("RangeT", bound=IRange)


class HeldRanges(Generic[RangeT]):
    """Ranges in the order of their begins. If there is no room, the furthest are dropped."""

    def __init__(self, most_bytes: int) -> None:
        self.dropped = 0
        self._most_bytes = most_bytes
        self._ranges: list[RangeT] = []
        self._received_at: list[float] = []
        """Of each range."""
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def __iter__(self) -> Iterator[RangeT]:
        return iter(self._ranges)

    @property
    def first_begin(self) -> int:
        return self._ranges[0].previous

    @property
    def first_received_at(self) -> float:
        """Time at which the first range came: since then an earlier one is known to be missing."""
        return self._received_at[0]

    def add(self, range_: RangeT, now: float) -> bool:
        """Add a range; if an earlier one has all its ANs, its events only.

        Return True if another range is missing between it and those that were held.
        """
        ranges = self._ranges
        place = bisect_right(ranges, (range_.previous, range_.upto), key=_span)
        if place and ranges[place - 1].upto >= range_.upto:
            whole = ranges[place - 1]
            ranges[place - 1] = whole.add_events((range_,))
            self._bytes += ranges[place - 1].size - whole.size
            self._keep_bounds()
            return False
        is_apart = place == len(ranges) > 0 and ranges[-1].upto < range_.previous
        ranges.insert(place, range_)
        self._received_at.insert(place, now)
        self._bytes += range_.size
        self._keep_bounds()
        return is_apart

    def _keep_bounds(self) -> None:
        ranges = self._ranges
        while len(ranges) > MOST_HELD or self._bytes > self._most_bytes:
            self._bytes -= ranges.pop().size
            self._received_at.pop()
            self.dropped += 1

    def take_following(self, current: int) -> list[RangeT]:
        """Remove and return the ranges that lead on from an AN, cut at it. Where they overlap, each
        has the events of the others."""
        following: list[RangeT] = []
        count = 0
        for each in self._ranges:
            if each.previous > current:
                break
            count += 1
            self._bytes -= each.size
            for n in reversed(range(len(following))):
                if following[n].upto <= each.previous:
                    break
                following[n] = following[n].add_events((each,))
            if each.upto > current:
                following.append(each if each.previous == current else each.after(current))
                current = each.upto
        if count:
            del self._ranges[:count], self._received_at[:count]
        return following

    def take_all(self) -> list[RangeT]:
        taken, self._ranges, self._received_at, self._bytes = self._ranges, [], [], 0
        return taken

    def spans(self, most: int) -> list[tuple[int, int]]:
        """Return the first spans without a missing range in them."""
        found: list[tuple[int, int]] = []
        for each in self._ranges:
            if found and each.previous <= found[-1][1]:
                found[-1] = found[-1][0], max(found[-1][1], each.upto)
            elif len(found) == most:
                break
            else:
                found.append((each.previous, each.upto))
        return found


def _span(range_: IRange) -> tuple[int, int]:
    return range_.previous, range_.upto
