"""One timer for many deadlines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.transport.clock import IClock, IDelayed

#: A call that is later than this (seconds) tells that the process was held up.
_LATE: Final = 0.1


class Alarm:
    """Keeps at most one call of `clock` armed, so that `ring` is called at the deadline or earlier.

    A deadline that moves away leaves the timer as it is: it rings early, whoever hears it looks
    what is due, and sets it again. So traffic that moves a deadline with each packet costs nothing.
    """

    def __init__(self, clock: IClock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._call: IDelayed | None = None
        self.at: float | None = None
        """The time at which it rings; None while it is not set."""
        self._deferred = False

    def set(self, deadline: float | None) -> None:
        """Ring at `deadline` (absolute) at the latest; with None there is no timer any more."""
        if self._call is not None:
            if deadline is not None and self.at is not None and deadline >= self.at:
                return
            self._call.cancel()
            self._call = None
        self.at = deadline
        if deadline is not None:
            self._deferred = False
            delay = max(0.0, deadline - self._clock.seconds())
            self._call = self._clock.callLater(delay, self._fire)

    def _fire(self) -> None:
        self._call = None
        assert self.at is not None
        if not self._deferred and self._clock.seconds() > self.at + _LATE:
            # Reactors call what is due before they read: nobody is silent whose words wait there.
            self._deferred = True
            self._call = self._clock.callLater(0.0, self._fire)
            return
        self._deferred = False
        self.at = None
        self._ring()
