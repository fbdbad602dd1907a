"""Timer lag: how late this machine fires its timers (M7)."""

from __future__ import annotations

from typing import Final

from broker.transport.clock import IClock

#: Seconds.
PROBE_DELAY: Final = 0.1
#: There is one probe a second.
_WEIGHT: Final = 0.2
#: Seconds of average lag.
SLOW_FROM: Final = 0.25
SLOW_UNTIL: Final = 0.1


class TimerLag:
    """Average lateness of this machine's timers, in seconds, with hysteresis for `is_slow` (M7)."""

    def __init__(self, clock: IClock) -> None:
        self._clock = clock
        self._is_probing = False
        self.average = 0.0
        self.is_slow = False

    def start_probe(self) -> None:
        """Call each second."""
        if not self._is_probing:
            self._is_probing = True
            self._clock.callLater(
                PROBE_DELAY, self._finish_probe, self._clock.seconds() + PROBE_DELAY
            )

    def _finish_probe(self, due: float) -> None:
        self._is_probing = False
        lag = self._clock.seconds() - due
        self.average += _WEIGHT * (lag - self.average)
        self.is_slow = self.average > (SLOW_UNTIL if self.is_slow else SLOW_FROM)
