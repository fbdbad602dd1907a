"""Lateness of timers: how far this machine is behind with what it has to do (M7)."""

from __future__ import annotations

from typing import Final

from broker.transport.clock import IClock

#: Seconds from a probe to the moment at which it is due.
PROBE_DELAY: Final = 0.1
#: The part of the average that the newest of the probes makes up; one is sent each second.
_WEIGHT: Final = 0.2
#: Seconds of average lateness from which on the machine is slow, and below which it no longer is.
SLOW_FROM: Final = 0.25
SLOW_UNTIL: Final = 0.1


class TimerLag:
    """An average over the last seconds, and whether the machine is slow by it."""

    def __init__(self, clock: IClock) -> None:
        self._clock = clock
        self._is_probing = False
        self.average = 0.0
        """Seconds."""
        self.is_slow = False

    def start_probe(self) -> None:
        """Measure once more; to be called each second."""
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
