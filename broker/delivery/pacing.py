"""Pacing of recovered events: full speed, the original pace, or a maximum rate."""

from __future__ import annotations

from typing import Final

import attrs

from broker.log.logged_event import LoggedEvent, time_of
from broker.wire.messages import Subscribe

#: With `by_time` a later event whose time falls or rises by more ms begins another recording: it is
#: due at once.
MAX_FALL: Final = 6 * 3_600_000
MAX_RISE: Final = 24 * 3_600_000


@attrs.define
class Pacing:
    """Due times; `now` is monotonic, in seconds (N5, Q3)."""

    pace: float = 0.0
    """Multiple of the pace of arrival; 0: no pacing."""
    rate: float = 0.0
    """Most events per second; 0: no bound."""
    by_time: bool = False
    """True for the pace of the events' own times. An event without one is due at once."""
    _started: float | None = None
    _first: int = 0
    _latest: int = 0
    _next_due: float = 0.0

    @classmethod
    def of_request(cls, request: Subscribe) -> Pacing:
        return cls(request.pace, request.rate, request.paced_by_time)

    @property
    def is_unlimited(self) -> bool:
        return not self.pace and not self.rate

    def seconds_until_due(self, event: LoggedEvent, now: float) -> float:
        due = now
        if self.pace and (time := self._time_of(event)) is not None:
            if self._started is None or self._begins_recording(time):
                self._started, self._first, self._latest = now, time, time
            self._latest = max(self._latest, time)
            due = self._started + max(0, time - self._first) / 1000 / self.pace
        if self.rate:
            due = max(due, self._next_due)
        return max(0.0, due - now)

    def _time_of(self, event: LoggedEvent) -> int | None:
        return time_of(event.record) if self.by_time else event.arrival

    def _begins_recording(self, time: int) -> bool:
        # A publisher chooses the time: one of the year 2200 must not stop the replay.
        return self.by_time and not -MAX_FALL <= time - self._latest <= MAX_RISE

    def record_sent(self, now: float) -> None:
        if self.rate:
            self._next_due = max(self._next_due, now) + 1 / self.rate
