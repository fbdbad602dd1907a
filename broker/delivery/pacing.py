"""When a recovered event is due: at full speed, at the original pace, at most so many a second."""

from __future__ import annotations

import attrs


@attrs.define
class Pacing:
    """Times in seconds; `now` is monotonic (N5, Q3)."""

    pace: float = 0.0
    """Factor of the pace at which the events arrived at first; 0: as fast as possible."""
    rate: float = 0.0
    """Events a second at most; 0: no bound."""
    _started: float | None = None
    _first_arrival: int = 0
    _next_due: float = 0.0

    @property
    def is_unlimited(self) -> bool:
        """Whether nothing waits."""
        return not self.pace and not self.rate

    def seconds_until_due(self, arrival: int, now: float) -> float:
        """How long an event that arrived at `arrival` (ms since 1970) has to wait from now on."""
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
        """An event went out."""
        if self.rate:
            self._next_due = max(self._next_due, now) + 1 / self.rate
