"""Lag of durable subscriptions: how much of the node's log they have yet to process.

Only marks, serials and one arrival time are read, never events. So the figures are bounds: they
count events that the subscription will filter, and of other origins sometimes more than there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import attrs

from broker.event.place import Mark
from broker.store.event_log import EventLog

_NOWHERE: Mark = (0, 0)


@attrs.frozen
class Lag:
    """Of one subscription."""

    events: int = 0
    """Events of the log behind the position, whether they match or not."""
    bytes: int = 0
    """What these take in the log, by the mean size of its events."""
    seconds: float = 0.0
    """Since the oldest of them was logged."""
    before_log: int = 0
    """Places behind the position that the log does not hold any more: they are recovered from other
    nodes or the archive, or become a gap."""


class Lags:
    """Computes lags as of one moment. Positions with the same mark of an origin share a look-up."""

    def __init__(self, log: EventLog, wall_clock: Callable[[], int]) -> None:
        """`wall_clock` gives ms since 1970."""
        self._log = log
        self._now = wall_clock()
        self._covered = log.coverage.marks
        self._since = log.since
        self._serials: dict[tuple[str, Mark], int] = {}

    def places(self, position: Mapping[str, Mark]) -> int:
        """Places behind a position: an upper bound of its lag, without a look at the log."""
        return sum(count for _, count in self._behind(position))

    def of(self, position: Mapping[str, Mark]) -> Lag:
        """The lag of a subscription with this position."""
        bounds = self._log.bounds
        before = sum(
            max(0, mark[1] - position[origin][1])
            for origin, mark in self._since.items()
            if origin in position
        )
        behind = self._behind(position)
        first = min((self._serial(o, position.get(o, _NOWHERE)) for o, _ in behind), default=0)
        if not behind or first > bounds.last:
            return Lag(before_log=before)
        # Both are upper bounds: places that were not wanted here, and events of other origins.
        events = min(sum(count for _, count in behind), bounds.last - first + 1)
        held = bounds.last - bounds.first + 1
        arrived = self._log.arrival_of(first)
        return Lag(
            events=events,
            bytes=bounds.used_bytes * min(events, held) // max(held, 1),
            seconds=max(0, self._now - arrived) / 1000 if arrived else 0.0,
            before_log=before,
        )

    def furthest_behind(
        self, positions: Iterable[tuple[str, str, Mapping[str, Mark]]], most: int
    ) -> list[tuple[str, str, Lag]]:
        """(client, name, lag) of the `most` subscriptions with the largest lags, largest first."""
        ranked = [(self.places(marks), client, name, marks) for client, name, marks in positions]
        ranked.sort(key=lambda row: (-row[0], *row[1:3]))
        return [(client, name, self.of(marks)) for _, client, name, marks in ranked[:most]]

    def _behind(self, position: Mapping[str, Mark]) -> list[tuple[str, int]]:
        found = []
        for origin, covered in self._covered.items():
            mark = position.get(origin, _NOWHERE)
            if mark < covered:
                begins = max(mark[1], self._since.get(origin, _NOWHERE)[1])
                if begins < covered[1]:
                    found.append((origin, covered[1] - begins))
        return found

    def _serial(self, origin: str, mark: Mark) -> int:
        found = self._serials.get((origin, mark))
        if found is None:
            found = self._serials[origin, mark] = self._log.first_after(origin, mark)
        return found
