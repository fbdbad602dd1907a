"""Lag of durable subscriptions: the part of the node's log that they have yet to process.

The figures are upper bounds, without reading events.
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
    events: int = 0
    """Events of the log behind the position, matching or not."""
    bytes: int = 0
    """From the mean event size."""
    seconds: float = 0.0
    """Age of the oldest."""
    before_log: int = 0
    """Places behind the position that the log does not have: trimmed, or before the subscription's
    move here. They are recovered, or become a gap."""


#: For a subscription that moved to another node.
UNKNOWN_LAG: Final[Mapping[str, None]] = {field.name: None for field in attrs.fields(Lag)}


class LagSnapshot:
    """Computes lags at one moment; equal marks share a look-up.

    Behind the marks of `complete` the log has all matching events of other origins.
    """

    def __init__(self, log: EventLog, wall_clock: Callable[[], int]) -> None:
        """`wall_clock` gives ms since 1970."""
        self._log = log
        self._now_ms = wall_clock()
        self._coverage = log.coverage.marks
        self._since = log.begins_after
        self._serials: dict[tuple[str, Mark], int] = {}

    def compute_lag(self, position: Mapping[str, Mark], complete: Mapping[str, Mark]) -> Lag:
        bounds = self._log.bounds
        before, behind = self._split_places(position, complete)
        first = min(
            (self._first_serial_after(origin, mark) for origin, mark, _ in behind), default=0
        )
        if not behind or first > bounds.last:
            return Lag(before_log=before)
        # They include places that the log does not have, and events of other origins.
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
        """Return (client, name, lag) of the largest lags, largest first.

        A subscription is (client, name, position, complete).
        """
        ranked = [(sum(self.count_places(*each[2:])), each) for each in subscriptions]
        ranked.sort(key=lambda row: (-row[0], *row[1][:2]))
        return [
            (client, name, self.compute_lag(position, complete))
            for _, (client, name, position, complete) in ranked[:limit]
        ]

    def count_places(
        self, position: Mapping[str, Mark], complete: Mapping[str, Mark]
    ) -> tuple[int, int]:
        """Return the places before the log, and those behind the position in it."""
        before, behind = self._split_places(position, complete)
        return before, sum(count for _, _, count in behind)

    def _split_places(
        self, position: Mapping[str, Mark], complete: Mapping[str, Mark]
    ) -> tuple[int, list[tuple[str, Mark, int]]]:
        """Return the places before the log, and (origin, mark, places) behind marks in it."""
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
                # Without a mark, it is unknown where the subscription began.
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
