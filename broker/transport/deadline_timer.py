"""One timer for many deadlines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.transport.clock import IClock, IDelayed

#: Seconds; a later call shows that the process was held up.
_HELD_UP_AFTER: Final = 0.1


class DeadlineTimer:
    """One timer for many deadlines: `on_due` is called at the deadline or earlier.

    A later deadline leaves the armed call as it is; its receiver arms the timer again. So moving a
    deadline with each packet costs nothing.
    """

    def __init__(self, clock: IClock, on_due: Callable[[], None]) -> None:
        self._clock = clock
        self._on_due = on_due
        self._call: IDelayed | None = None
        self.deadline: float | None = None
        self._is_deferred = False

    def arm(self, deadline: float | None) -> None:
        """Call at `deadline` (absolute) at the latest; None disarms the timer."""
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
            # The reactor runs due calls before it reads: a peer whose bytes wait unread is not
            # silent.
            self._is_deferred = True
            self._call = self._clock.callLater(0.0, self._handle_call)
            return
        self._is_deferred = False
        self.deadline = None
        self._on_due()
