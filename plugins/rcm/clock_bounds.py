"""Bounds of the errors of site clocks, for stamps that are times."""

from __future__ import annotations

from collections.abc import Callable

from broker.transport.clock import IClock
from broker.transport.layer import ClockOffset
from broker.transport.site_clock import MICROSECONDS

#: Microseconds by which a wall clock that is read in ms may be wrong.
OWN_BOUND = 1_000
#: Seconds for which a measurement is used.
BOUND_SECONDS = 1.0


class ClockBounds:
    """The bound of each site: its measured offset, and the uncertainty of that."""

    def __init__(self, clock_of: Callable[[str], ClockOffset | None], clock: IClock) -> None:
        self._clock_of = clock_of
        self._clock = clock
        self._bounds: dict[str, int] = {}
        self._until = 0.0

    def bound_of(self, site: str) -> int:
        """Return microseconds. A site that was not measured has the bound of the own clock."""
        now = self._clock.seconds()
        if now >= self._until:
            self._until = now + BOUND_SECONDS
            self._bounds.clear()
        if site not in self._bounds:
            self._bounds[site] = self._measure(site)
        return self._bounds[site]

    def _measure(self, site: str) -> int:
        clock = self._clock_of(site)
        if clock is None:
            return OWN_BOUND
        return OWN_BOUND + round((abs(clock.offset) + clock.uncertainty) * MICROSECONDS)
