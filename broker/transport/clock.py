"""`IReactorTime` and `task.Clock` provide these interfaces."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol


def wall_clock_ms() -> int:
    """Return ms since 1970, for people and other programs, never for waiting."""
    return time.time_ns() // 1_000_000


class IDelayed(Protocol):
    """A scheduled call."""

    def cancel(self) -> object:
        """Cancel the call; only while it is active."""

    def active(self) -> bool:
        """Return True while the call is still to come."""


class IClock(Protocol):
    """Monotonic time in seconds, and scheduled calls (T17: make the reactor's clock monotonic)."""

    def seconds(self) -> float:
        """Return the present time."""

    def callLater(self, delay: float, f: Callable[..., object], /, *args: object) -> IDelayed:
        """Call `f(*args)` in `delay` seconds."""
