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
    _began: float | None = None
    _first_arrival: int = 0
    _next: float = 0.0

    @property
    def is_free(self) -> bool:
        """Whether nothing waits."""
        return not self.pace and not self.rate

    def wait(self, arrival: int, now: float) -> float:
        """How long an event that arrived at `arrival` (ms since 1970) has to wait from now on."""
        if self._began is None:
            self._began, self._first_arrival, self._next = now, arrival, now
        due = now
        if self.pace:
            after = max(0, arrival - self._first_arrival) / 1000
            due = self._began + after / self.pace
        if self.rate:
            due = max(due, self._next)
        return max(0.0, due - now)

    def sent(self, now: float) -> None:
        """An event went out."""
        if self.rate:
            self._next = max(self._next, now) + 1 / self.rate
