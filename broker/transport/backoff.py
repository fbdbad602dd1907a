"""Backoff: wait longer after each failure, up to a bound.

A connection that breaks at once counts as a failure. Only an attempt that lasted, or made progress,
resets the wait.
"""

from __future__ import annotations

import random
from typing import Final

import attrs

#: Seconds.
SUCCESS_AFTER: Final = 5.0
#: A higher power of two exceeds every bound.
_MAX_POWER: Final = 32
_UNSEEDED: Final = random.Random()


def backoff_bound(failures: int, first: float, most: float) -> float:
    """Return the longest wait in seconds, without jitter."""
    return min(most, first * 2.0 ** min(failures, _MAX_POWER))


def backoff_wait(failures: int, first: float, most: float, rng: random.Random) -> float:
    """Return a random wait in seconds: half of the bound to all of it."""
    bound = backoff_bound(failures, first, most)
    return rng.uniform(bound / 2, bound)


@attrs.define
class Backoff:
    first_wait: float = 0.1
    max_wait: float = 30.0
    random: random.Random = _UNSEEDED
    jitter: bool = True
    """Half of each wait is random."""
    success_after: float = SUCCESS_AFTER
    _failures: int = 0
    _up_since: float | None = None

    def report_up(self, now: float) -> None:
        if self._up_since is None:
            self._up_since = now

    def report_progress(self) -> None:
        """Record that the attempt has done its work: its end is no failure."""
        self._failures = 0

    def next_wait(self, now: float) -> float:
        """Return the seconds to wait after the attempt failed or ended."""
        if self._up_since is not None and now - self._up_since >= self.success_after:
            self._failures = 0
        self._up_since = None
        failures = self._failures
        self._failures += 1
        if not self.jitter:
            return backoff_bound(failures, self.first_wait, self.max_wait)
        return backoff_wait(failures, self.first_wait, self.max_wait, self.random)
