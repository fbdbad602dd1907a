"""Pacing of recovered events: full speed, the original pace, or a maximum rate."""

from __future__ import annotations

import attrs


@attrs.define
class Pacing:
    """Due times; `now` is monotonic, in seconds (N5, Q3)."""

    pace: float = 0.0
    """Multiple of the pace of arrival; 0: no pacing."""
    rate: float = 0.0
    """Most events per second; 0: no bound."""
    _started: float | None = None
    _first_arrival: int = 0
    _next_due: float = 0.0

    @property
    def is_unlimited(self) -> bool:
        return not self.pace and not self.rate

    def seconds_until_due(self, arrival: int, now: float) -> float:
        """`arrival` is the event's, in ms since 1970."""
        if self._started is None:
            self._started, self._first_arrival, self._next_due = now, arrival, now
        due = now
        if self.pace:
            after = max(0, arrival - self._first_arrival) / 1000
            due = self._started + after / self.pace
        if self.rate:
            due = max(due, self._next_due)
        return max(0.0, due - now)

    def record_sent(self, now: float) -> None:
        if self.rate:
            self._next_due = max(self._next_due, now) + 1 / self.rate
