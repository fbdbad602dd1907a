"""One timer for many deadlines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.transport.clock import IClock, IDelayed

#: A call that is later than this (seconds) tells that the process was held up.
_HELD_UP_AFTER: Final = 0.1


class DeadlineTimer:
    """Keeps at most one call of `clock` armed, so that `ring` is called at the deadline or earlier.

    A deadline that moves away leaves the timer as it is: it rings early, whoever hears it looks
    what is due, and sets it again. So traffic that moves a deadline with each packet costs nothing.
    """

    def __init__(self, clock: IClock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._on_due = ring
        self._call: IDelayed | None = None
        self.deadline: float | None = None
        """The time at which it rings; None while it is not set."""
        self._is_deferred = False

    def arm(self, deadline: float | None) -> None:
        """Ring at `deadline` (absolute) at the latest; with None there is no timer any more."""
        if self._call is not None:
            if deadline is not None and self.deadline is not None and deadline >= self.deadline:
                return
            self._call.cancel()
            self._call = None
        self.deadline = deadline
        if deadline is not None:
            self._is_deferred = False
            delay = max(0.0, deadline - self._clock.seconds())
            self._call = self._clock.callLater(delay, self._handle_call)

    def _handle_call(self) -> None:
        self._call = None
        assert self.deadline is not None
        if not self._is_deferred and self._clock.seconds() > self.deadline + _HELD_UP_AFTER:
            # Reactors call what is due before they read: nobody is silent whose words wait there.
            self._is_deferred = True
            self._call = self._clock.callLater(0.0, self._handle_call)
            return
        self._is_deferred = False
        self.deadline = None
        self._on_due()
