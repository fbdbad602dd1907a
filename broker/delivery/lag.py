"""Lag of durable subscriptions: how much of the node's log they have yet to process.

Only marks, serials and one arrival time are read, never events. So the figures are bounds: they
count events that the subscription will filter, and of other origins sometimes more than there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import attrs

from broker.event.place import Mark
from broker.log.event_log import EventLog

_BEFORE_ALL: Mark = (0, 0)


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
    """Places behind the position that the log does not hold: retention took them, or they came
    before the subscription moved here. They are recovered from other nodes or the archive, or
    become a gap."""


#: Of a subscription that is at another node: that one knows its lag.
UNKNOWN_LAG: Final[Mapping[str, None]] = {field.name: None for field in attrs.fields(Lag)}


class LagSnapshot:
    """Computes lags as of one moment. Positions with the same mark of an origin share a look-up.

    `complete` is behind what the log has all of other origins that the subscription wants.
    """

    def __init__(self, log: EventLog, wall_clock: Callable[[], int]) -> None:
        """`wall_clock` gives ms since 1970."""
        self._log = log
        self._now_ms = wall_clock()
        self._coverage = log.coverage.marks
        self._since = log.begins_after
        self._serials: dict[tuple[str, Mark], int] = {}

    def compute_lag(self, position: Mapping[str, Mark], complete: Mapping[str, Mark]) -> Lag:
        """The lag of a subscription with this position."""
        bounds = self._log.bounds
        before, behind = self._split_places(position, complete)
        first = min((self._first_serial_after(origin, mark) for origin, mark, _ in behind), default=0)
        if not behind or first > bounds.last:
            return Lag(before_log=before)
        # Both are upper bounds: places that were not wanted here, and events of other origins.
        events = min(sum(count for _, _, count in behind), bounds.last - first + 1)
        held = bounds.last - bounds.first + 1
        arrived = self._log.arrival_at(first)
        return Lag(
            events=events,
            bytes=bounds.used_bytes * min(events, held) // max(held, 1),
            seconds=max(0, self._now_ms - arrived) / 1000 if arrived else 0.0,
            before_log=before,
        )

    def find_furthest_behind(
        self,
        subscriptions: Iterable[tuple[str, str, Mapping[str, Mark], Mapping[str, Mark]]],
        limit: int,
    ) -> list[tuple[str, str, Lag]]:
        """(client, name, lag) of the `most` subscriptions with the largest lags, largest first.

        A subscription is (client, name, position, complete).
        """
        ranked = [(self._count_places(*each[2:]), each) for each in subscriptions]
        ranked.sort(key=lambda row: (-row[0], *row[1][:2]))
        return [
            (client, name, self.compute_lag(position, complete))
            for _, (client, name, position, complete) in ranked[:limit]
        ]

    def _count_places(self, position: Mapping[str, Mark], complete: Mapping[str, Mark]) -> int:
        """An upper bound of events and places before the log, without a look at the log."""
        before, behind = self._split_places(position, complete)
        return before + sum(count for _, _, count in behind)

    def _split_places(
        self, position: Mapping[str, Mark], complete: Mapping[str, Mark]
    ) -> tuple[int, list[tuple[str, Mark, int]]]:
        """Places before the log; and what the log has: (origin, behind which mark, places)."""
        if position == self._coverage:
            return 0, []
        before, found = 0, []
        for origin, covered in self._coverage.items():
            mark = begins = position.get(origin, _BEFORE_ALL)
            if mark >= covered:
                continue
            since = self._since.get(origin, _BEFORE_ALL)
            if origin in complete and origin != self._log.origin:
                begins = max(begins, complete[origin])
            if origin in position:
                # Of one that is not named it is not known where the subscription began.
                begins = max(begins, since)
            before += max(0, begins[1] - mark[1])
            begins = max(begins, since)
            if begins[1] < covered[1]:
                found.append((origin, begins, covered[1] - begins[1]))
        return before, found

    def _first_serial_after(self, origin: str, mark: Mark) -> int:
        found = self._serials.get((origin, mark))
        if found is None:
            found = self._serials[origin, mark] = self._log.first_after(origin, mark)
        return found
