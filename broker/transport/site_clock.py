"""Site clock: microseconds since 1970 that never step back, for stamps of real time (T17)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

MICROSECONDS: Final = 1_000_000
#: Seconds between two readings of the wall clock.
_READ_EVERY: Final = 10.0
#: A site clock that is ahead goes slower by this part, until the wall clock has caught up.
_SLEW: Final = 0.1


class SiteClock:
    """Monotonic time plus an offset from the wall clock.

    It follows steps of the wall clock: forward at once, backward by going slower. So it may be
    ahead of the wall clock for ten times as long as that stepped back.
    """

    def __init__(self, wall_clock: Callable[[], int]) -> None:
        """`wall_clock` returns ms since 1970."""
        self._wall_clock = wall_clock
        self._offset: float | None = None
        self._read_at = 0.0
        self._last = 0

    def read(self, now: float) -> int:
        """Return the time. `now` is monotonic time in seconds."""
        if self._offset is None:
            self._offset, self._read_at = self._measure(now), now
        elif now >= self._read_at + _READ_EVERY:
            slowest = self._offset - _SLEW * (now - self._read_at)
            self._offset, self._read_at = max(self._measure(now), slowest), now
        self._last = max(self._last, round((now + self._offset) * MICROSECONDS))
        return self._last

    def _measure(self, now: float) -> float:
        return self._wall_clock() / 1000 - now
