"""The round-trip time (RFC 6298) and the timeouts that follow from it."""

from __future__ import annotations

from typing import Final

#: Less than in the RFC, for links between nodes.
_FIRST_TIMEOUT: Final = 0.25
_MIN_TIMEOUT: Final = 0.03
_MAX_TIMEOUT: Final = 2.0
_ALPHA: Final = 1 / 8
_BETA: Final = 1 / 4
_K: Final = 4
#: `shortest` covers the last one or two periods.
_PERIOD: Final = 10.0


class RoundTrip:
    """Smoothed round-trip time, its variation, and the recent minimum, in seconds (RFC 6298)."""

    def __init__(self) -> None:
        self.smoothed = 0.0
        self.variation = 0.0
        self._has_sample = False
        self._shortest = [float("inf"), float("inf")]  # previous, present
        self._period_ends = 0.0

    def add_sample(self, sample: float, now: float) -> None:
        sample = max(sample, 0.0)
        if self._has_sample:
            difference = abs(self.smoothed - sample)
            self.variation += _BETA * (difference - self.variation)
            self.smoothed += _ALPHA * (sample - self.smoothed)
        else:
            self._has_sample = True
            self.smoothed = sample
            self.variation = sample / 2
        if now >= self._period_ends:
            self._period_ends = now + _PERIOD
            self._shortest = [self._shortest[1], sample]
        elif sample < self._shortest[1]:
            self._shortest[1] = sample

    @property
    def shortest(self) -> float:
        """Infinite before the first sample."""
        return min(self._shortest)

    @property
    def retransmit_after(self) -> float:
        """Seconds until a datagram that is still reported missing is sent again."""
        if not self._has_sample:
            return _MIN_TIMEOUT
        return self.smoothed + 2 * self.variation

    def timeout(self, delay: float) -> float:
        """Return the seconds after which an answer is late; the peer may hold it for `delay`."""
        if not self._has_sample:
            return _FIRST_TIMEOUT
        return min(max(self.smoothed + _K * self.variation + delay, _MIN_TIMEOUT), _MAX_TIMEOUT)
