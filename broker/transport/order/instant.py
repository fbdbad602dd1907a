"""One reading of both clocks of a site, an argument of each call of a core."""

from __future__ import annotations

from typing import NamedTuple

#: The unit of the site clock.
MICROSECONDS = 1_000_000


class Instant(NamedTuple):
    """`now` serves timers. Stamps of real time come from the site clock (T17)."""

    now: float
    """Monotonic time in seconds."""
    site_clock: int
    """Microseconds. It never steps back, and may step forward."""

    def until(self, site_clock: int) -> float:
        """Return the monotonic time at which the site clock shows this value, if it runs on."""
        return self.now + max(0, site_clock - self.site_clock) / MICROSECONDS
