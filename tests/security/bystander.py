"""A client beside an attack that measures the latency from publication to delivery.

Its latency without an attack, measured before and after in the same run, is the baseline. Time in
which the loop of the tests was late does not count: attackers run in it, and derive their keys.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final

from tests.system.traffic import Bystander, checked_bystander

#: Events of a measurement.
EVENTS: Final = 100
#: An attack at most doubles the 99th percentile, apart from the noise of a busy machine.
FACTOR: Final = 2.0
#: Seconds.
NOISE: Final = 0.1
_TICK: Final = 0.002


class _LateLoop:
    """Seconds for which the loop of the tests was late, in sum."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._loop = asyncio.get_running_loop()
        self._schedule()

    def stop(self) -> None:
        self._timer.cancel()

    def _schedule(self) -> None:
        due = self._loop.time() + _TICK
        self._timer = self._loop.call_at(due, self._tick, due)

    def _tick(self, due: float) -> None:
        # Timers are always late by a little.
        self.seconds += max(0.0, self._loop.time() - due - _TICK)
        self._schedule()


class MeasuredBystander:
    """Measures during attacks; `check` compares with the baselines."""

    def __init__(self, traffic: Bystander) -> None:
        self._traffic = traffic
        self._baselines: list[float] = []
        self._attacked: list[float] = []

    async def measure(self, tries: int = 1) -> None:
        """Call it while an attack goes on.

        The best of some `tries` counts: other work of the machine delays a busy node more than an
        idle one.
        """
        best = await self._time_events()
        while best > self._bound and (tries := tries - 1):
            best = min(best, await self._time_events())
        self._attacked.append(best)

    async def measure_longest(self, attack: asyncio.Future[Any]) -> float:
        """Return the longest time from publication to delivery until the attack ends."""
        late = _LateLoop()
        longest = 0.0
        try:
            while not attack.done():
                longest = max(longest, await self._time_event(late))
        finally:
            late.stop()
        await attack
        return longest

    async def measure_baseline(self) -> None:
        self._baselines.append(await self._time_events())

    def check(self) -> None:
        """Raises AssertionError if an attack has more than doubled the 99th percentile."""
        assert self._attacked, "nothing was measured during the attack"
        assert max(self._attacked) <= self._bound, (
            f"99th percentiles: {self._attacked} s in the attack, {self._baselines} s without"
        )

    @property
    def _bound(self) -> float:
        return FACTOR * max(self._baselines) + NOISE

    async def _time_events(self) -> float:
        """Return the 99th percentile."""
        late = _LateLoop()
        try:
            seconds = sorted([await self._time_event(late) for _ in range(EVENTS)])
        finally:
            late.stop()
        return seconds[EVENTS * 99 // 100 - 1]

    async def _time_event(self, late: _LateLoop) -> float:
        before = late.seconds
        seconds = await self._traffic.time_event()
        return seconds - (late.seconds - before)


@contextlib.asynccontextmanager
async def measured_bystander(endpoint: str, **identity: Any) -> AsyncIterator[MeasuredBystander]:
    """Check at the end that all its events arrived once, in order, over one connection, in time."""
    async with checked_bystander(endpoint, **identity) as traffic:
        bystander = MeasuredBystander(traffic)
        await bystander.measure_baseline()
        yield bystander
        await bystander.measure_baseline()
        bystander.check()
