"""Times at which the messages of one site were released, by the own site clock."""

from __future__ import annotations

from bisect import bisect_right

#: Releases that are remembered; the oldest half is dropped first.
MOST_RELEASES = 4_096


class ReleaseTimes:
    def __init__(self) -> None:
        self._incarnation = -1
        self._firsts: list[int] = []
        self._ends: list[int] = []
        self._clocks: list[int] = []
        self._found = 0
        """Index of the release that was found last: messages come together."""

    @property
    def last(self) -> tuple[int, int]:
        """Incarnation and number of the last released message."""
        return self._incarnation, self._ends[-1] - 1 if self._ends else 0

    def record(self, incarnation: int, first: int, count: int, clock: int) -> None:
        """Record messages with consecutive numbers. Older incarnations are dropped."""
        if incarnation != self._incarnation or (self._ends and first < self._ends[-1]):
            for each in (self._firsts, self._ends, self._clocks):
                each.clear()
            self._incarnation = incarnation
        self._firsts.append(first)
        self._ends.append(first + count)
        self._clocks.append(clock)
        if len(self._firsts) > MOST_RELEASES:
            for each in (self._firsts, self._ends, self._clocks):
                del each[: MOST_RELEASES // 2]

    def find(self, incarnation: int, number: int) -> int | None:
        """Return the time in microseconds; None if it is not known."""
        if incarnation != self._incarnation or not self._firsts:
            return None
        index = min(self._found, len(self._firsts) - 1)
        if not self._firsts[index] <= number < self._ends[index]:
            index = bisect_right(self._firsts, number) - 1
            if index < 0 or number >= self._ends[index]:
                return None
            self._found = index
        return self._clocks[index]
