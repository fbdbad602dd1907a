"""Virtual time: due calls run in order, without waiting."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from random import Random
from typing import Any

from twisted.internet.base import DelayedCall
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.task import Clock
from twisted.python.failure import Failure

#: Wall clock at the start of a simulation, in ms since 1970.
BEGINNING = 1_700_000_000_000


class SortedClock(Clock):
    """Inserts each call in order: sorting took half the time of a simulation."""

    def callLater(
        self, delay: float, callable: Callable[..., object], *args: object, **kw: object
    ) -> IDelayedCall:
        call = DelayedCall(
            *(self.seconds() + delay, callable, args, kw),
            *(self.calls.remove, self._move, self.seconds),
        )
        insort(self.calls, call, key=DelayedCall.getTime)
        return call

    def _move(self, call: DelayedCall) -> None:
        """Restore the order after a call's time has changed."""
        self.calls.remove(call)
        insort(self.calls, call, key=DelayedCall.getTime)

    def _sortCalls(self) -> None:
        """The calls are sorted."""


class VirtualTime:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.clock = SortedClock()

    def wall_clock(self) -> int:
        """Return the simulation's ms since 1970."""
        return BEGINNING + int(self.clock.seconds() * 1000)

    def run(self, seconds: float) -> None:
        """Each due call runs at its own time."""
        clock = self.clock
        end = clock.seconds() + seconds
        while clock.calls and clock.calls[0].getTime() <= end:
            # Set, not added: a sum may stay below the call's time by rounding, for ever.
            clock.rightNow = max(clock.rightNow, clock.calls[0].getTime())
            clock.advance(0.0)
        clock.rightNow = max(clock.rightNow, end)

    def run_until(self, reached: Callable[[], bool], limit: float = 120.0) -> None:
        """AssertionError after `limit` seconds."""
        end = self.clock.seconds() + limit
        while not reached():
            assert self.clock.seconds() < end, f"not reached in {limit:g} s (seed {self.seed})"
            self.run(0.05)

    def wait(self, awaitable: Any, limit: float = 60.0) -> Any:
        """Let time pass; return the result of a Deferred, or raise its error."""
        results: list[Any] = []
        awaitable.addBoth(results.append)
        self.run_until(lambda: bool(results), limit)
        if isinstance(results[0], Failure):
            results[0].raiseException()
        return results[0]
