"""Ends of sessions whose login expires, such as that of a token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.errors import LoginExpired
from broker.sessions.session import Session
from broker.transport.clock import IClock, IDelayed

#: Seconds. A later end is checked again, so that a change of the wall clock counts.
_LONGEST_WAIT: Final = 3600.0


class LoginExpiries:
    """Ends sessions when their login expires; a later login of the session replaces it."""

    def __init__(self, clock: IClock, wall_clock: Callable[[], int]) -> None:
        self._clock = clock
        self._wall_clock = wall_clock
        self._timers: dict[Session, IDelayed] = {}

    def arm(self, session: Session, expires_at: float | None) -> None:
        """`expires_at` is in seconds since 1970; None: the login does not expire."""
        timer = self._timers.pop(session, None)
        if timer is not None and timer.active():
            timer.cancel()
        if expires_at is not None:
            wait = max(0.0, expires_at - self._wall_clock() / 1000)
            self._timers[session] = self._clock.callLater(
                min(wait, _LONGEST_WAIT), self._check, session, expires_at
            )

    def _check(self, session: Session, expires_at: float) -> None:
        if self._wall_clock() / 1000 < expires_at:
            self.arm(session, expires_at)
            return
        self._timers.pop(session, None)
        session.end(LoginExpired("the login has expired: log in with a new token or certificate"))
