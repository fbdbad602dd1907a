"""A client beside an attack that measures the latency from publication to delivery.

Its latency without an attack, measured before and after in the same run, is the baseline.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Final

from tests.system.traffic import Bystander, checked_bystander

#: Events of a measurement.
EVENTS: Final = 100
#: An attack at most doubles the 99th percentile, apart from the noise of a busy machine.
FACTOR: Final = 2.0
#: Seconds.
NOISE: Final = 0.1


class MeasuredBystander:
    """Measures during attacks; `check` compares with the baselines."""

    def __init__(self, traffic: Bystander) -> None:
        self._traffic = traffic
        self._baselines: list[float] = []
        self._attacked: list[float] = []

    async def measure(self) -> None:
        """Call it while an attack goes on."""
        self._attacked.append(await self._time_events())

    async def measure_baseline(self) -> None:
        self._baselines.append(await self._time_events())

    def check(self) -> None:
        """Raises AssertionError if an attack has more than doubled the 99th percentile."""
        bound = FACTOR * max(self._baselines) + NOISE
        assert self._attacked, "nothing was measured during the attack"
        assert max(self._attacked) <= bound, (
            f"99th percentiles: {self._attacked} s in the attack, {self._baselines} s without"
        )

    async def _time_events(self) -> float:
        """Return the 99th percentile."""
        seconds = sorted([await self._traffic.time_event() for _ in range(EVENTS)])
        return seconds[EVENTS * 99 // 100 - 1]


@contextlib.asynccontextmanager
async def measured_bystander(endpoint: str, **identity: str) -> AsyncIterator[MeasuredBystander]:
    """Check at the end that all its events arrived once, in order, over one connection, in time."""
    async with checked_bystander(endpoint, **identity) as traffic:
        bystander = MeasuredBystander(traffic)
        await bystander.measure_baseline()
        yield bystander
        await bystander.measure_baseline()
        bystander.check()
