"""Histogram of delays in fixed memory."""

from __future__ import annotations

from itertools import accumulate
from math import log2
from typing import Final

#: Seconds. Shorter delays are in the first bucket.
LOWEST: Final = 1e-4
#: Buckets for each doubling: a quantile is right within 5%.
STEPS: Final = 8
#: The last one begins at more than half an hour.
BUCKETS: Final = 1 + STEPS * 24


class DelayHistogram:
    def __init__(self) -> None:
        self.count = 0
        self._counts = [0] * BUCKETS

    def add(self, seconds: float, count: int) -> None:
        bucket = 0
        if seconds > LOWEST:
            bucket = min(1 + int(log2(seconds / LOWEST) * STEPS), BUCKETS - 1)
        self._counts[bucket] += count
        self.count += count

    def quantile(self, part: float) -> float | None:
        """Return a delay in seconds below which this part of all lies; None if there is none."""
        if not self.count:
            return None
        sums = accumulate(self._counts)
        bucket = next(each for each, up_to in enumerate(sums) if up_to >= self.count * part)
        return LOWEST * 2 ** ((bucket - 0.5) / STEPS)
