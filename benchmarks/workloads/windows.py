"""Bounds around a known share of the events' values."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable

#: Of a bound, so that many windows are distinct.
_FINER = 2


class Scale:
    """The distinct numbers of one value of the events.

    A window is a run of neighbouring values. Each value lies in the same share of windows, except
    near both ends.
    """

    def __init__(self, values: Iterable[float]) -> None:
        """There are at least two values; duplicates are ignored."""
        self._values = sorted(set(values))

    def __len__(self) -> int:
        return len(self._values)

    def window(self, chance: random.Random, share: float) -> tuple[str, str]:
        """Return bounds with about this share of the values, at least one, strictly between
        them."""
        values = self._values
        # A share between two whole numbers of values is met on average.
        wide = max(1, int(share * len(values) + chance.random()))
        wide = min(wide, len(values))
        first = chance.randrange(len(values) - wide + 1)
        last = first + wide - 1
        below = values[first - 1] if first else values[0] - 1.0
        above = values[last + 1] if last + 1 < len(values) else values[-1] + 1.0
        return _between(chance, below, values[first]), _between(chance, values[last], above)

    def bound(self, chance: random.Random, above: float) -> str:
        """Return a number that about the share `above` of the values exceed."""
        index = min(len(self._values) - 1, max(1, round((1 - above) * len(self._values))))
        return _between(chance, self._values[index - 1], self._values[index])


def _between(chance: random.Random, low: float, high: float) -> str:
    digits = max(0, math.ceil(-math.log10(high - low))) + _FINER
    return f"{low + (high - low) * chance.uniform(0.1, 0.9):.{digits}f}"
