"""What a driver needs of a clock; `IReactorTime` and `task.Clock` have it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol


def wall_clock_ms() -> int:
    """Ms since 1970: for what people and other programs read, never for waiting."""
    return time.time_ns() // 1_000_000


class IDelayed(Protocol):
    """A call that a clock will make."""

    def cancel(self) -> object:
        """Do not make it. Only for an active call."""

    def active(self) -> bool:
        """Whether it is still to come."""


class IClock(Protocol):
    """Monotonic time in seconds, and later calls (T17: the reactor's must be made monotonic)."""

    def seconds(self) -> float:
        """Now."""

    def callLater(self, delay: float, f: Callable[..., object], /, *args: object) -> IDelayed:
        """Call `f(*args)` in `delay` seconds."""
