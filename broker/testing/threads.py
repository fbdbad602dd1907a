"""Threads for a simulation: there are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred


class NoThreads:
    """Runs calls where they are made, a turn of the clock later: for simulations."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock

    def write(self, call: Callable[..., Any], /, *args: Any) -> Deferred[Any]:
        """See `broker.node.threads.Threads`."""
        return self._later(call, *args)

    def read(self, call: Callable[..., Any], /, *args: Any) -> Deferred[Any]:
        """See `broker.node.threads.Threads`."""
        return self._later(call, *args)

    def elsewhere(self, call: Callable[..., Any], /, *args: Any) -> Deferred[Any]:
        """See `broker.node.threads.Threads`."""
        return self._later(call, *args)

    def start(self) -> None:
        """There is nothing to start."""

    def stop(self) -> None:
        """There is nothing to stop."""

    def _later(self, call: Callable[..., Any], *args: Any) -> Deferred[Any]:
        done: Deferred[Any] = Deferred()
        self._clock.callLater(0.0, lambda: maybeDeferred(call, *args).chainDeferred(done))
        return done
