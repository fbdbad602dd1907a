"""Releases of messages by one site, with their times by the own site clock."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, NamedTuple

#: Releases that are remembered; the oldest half is dropped first.
MOST_RELEASES: Final = 4_096


class Release(NamedTuple):
    """Messages with consecutive numbers that were released together."""

    first: int
    end: int
    clock: int | None
    """Microseconds; None if the difference of the clocks is not measured yet."""
    size: int
    """Messages for each number: compared variants order a release as one message."""


class ReleaseTimes:
    def __init__(self) -> None:
        self._incarnation = -1
        self._firsts: list[int] = []
        self._releases: list[Release] = []
        self._found: Release | None = None
        """The release that was found last: messages come together."""

    @property
    def last(self) -> tuple[int, int]:
        """Incarnation and number of the last released message."""
        return self._incarnation, self._releases[-1].end - 1 if self._releases else 0

    def record(self, incarnation: int, release: Release) -> None:
        """Record a release behind all earlier ones. Other incarnations are dropped."""
        if incarnation != self._incarnation or release.first <= self.last[1]:
            self._firsts, self._releases, self._found = [], [], None
            self._incarnation = incarnation
        self._firsts.append(release.first)
        self._releases.append(release)
        if len(self._firsts) > MOST_RELEASES:
            del self._firsts[: MOST_RELEASES // 2], self._releases[: MOST_RELEASES // 2]

    def find(self, incarnation: int, number: int) -> Release | None:
        """Return the release of a message; None if it is not known."""
        if incarnation != self._incarnation:
            return None
        found = self._found
        if found is None or not found.first <= number < found.end:
            index = bisect_right(self._firsts, number) - 1
            if index < 0 or number >= self._releases[index].end:
                return None
            found = self._found = self._releases[index]
        return found
