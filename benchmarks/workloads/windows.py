"""Bounds around a known share of the values that events have."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable

#: Digits of a bound beyond those that tell its neighbours apart: so many windows are distinct.
_FINER = 2


class Scale:
    """The distinct numbers that one value of the events takes.

    A window is a run of neighbouring values, all runs being equally likely: so whatever value an
    event has, it lies in as many of the windows as any other (but for values near both ends).
    """

    def __init__(self, values: Iterable[float]) -> None:
        """At least two values; duplicates do no harm."""
        self._values = sorted(set(values))

    def __len__(self) -> int:
        return len(self._values)

    def window(self, chance: random.Random, share: float) -> tuple[str, str]:
        """Bounds with about this share of the values strictly between them, at least one."""
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
        """A number that about the share `above` of the values exceed."""
        index = min(len(self._values) - 1, max(1, round((1 - above) * len(self._values))))
        return _between(chance, self._values[index - 1], self._values[index])


def _between(chance: random.Random, low: float, high: float) -> str:
    digits = max(0, math.ceil(-math.log10(high - low))) + _FINER
    return f"{low + (high - low) * chance.uniform(0.1, 0.9):.{digits}f}"
