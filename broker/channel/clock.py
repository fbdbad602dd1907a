"""What a driver needs of a clock; `IReactorTime` and `task.Clock` have it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


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
