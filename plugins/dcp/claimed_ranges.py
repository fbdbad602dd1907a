"""The ranges that one parent has stated of one sequence: no other event of the query is in them."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

#: Those that do not follow each other: ranges between them were lost, or skipped.
_MOST_CLAIMED: Final = 256


class ClaimedRanges:
    """Disjoint ranges (previous, upto] in ascending order; adjacent ones are one."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []

    def add(self, previous: int, upto: int, current: int) -> None:
        """Add a range. Without room the oldest is forgotten if it ends at or before `current`, the
        child's place; else the furthest: a request brings it again."""
        begins, ends = self._begins, self._ends
        if ends and begins[-1] <= previous <= ends[-1]:
            # The usual case.
            ends[-1] = max(ends[-1], upto)
            return
        first = bisect_right(ends, previous - 1)
        last = bisect_right(begins, upto)
        if first < last:
            previous, upto = min(previous, begins[first]), max(upto, ends[last - 1])
        begins[first:last], ends[first:last] = [previous], [upto]
        if len(ends) > _MOST_CLAIMED:
            forgotten = 0 if ends[0] <= current else -1
            del begins[forgotten], ends[forgotten]

    def end_after(self, an: int) -> int | None:
        """Return the end of the claimed range that leads on from an AN; None: there is none."""
        found = bisect_right(self._begins, an) - 1
        return self._ends[found] if found >= 0 and an < self._ends[found] else None

    def has_claimed(self, an: int) -> bool:
        """Return whether the place of an event is in a claimed range."""
        return self.end_after(an - 1) is not None
