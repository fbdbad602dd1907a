"""Windows: two thresholds on one value, a lower and an upper one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import attrs

from broker.content.index.holes import Hole, Literal, Operator

_LOWER = frozenset({Operator.GREATER, Operator.GREATER_EQUAL})
_UPPER = frozenset({Operator.LESS, Operator.LESS_EQUAL})
#: Cells beyond this number are not told apart exactly by a double.
_MOST_CELLS = 2.0**50
#: Of widths, as powers of two: beyond it cells could be no doubles.
_MOST_EXPONENT = 900


@attrs.frozen(slots=True)
class Window:
    """The positions of the holes with the lower and the upper bound."""

    lower: int
    upper: int

    def size(self, literals: Sequence[Literal]) -> float | None:
        """The power of two that is not below the window's width.

        None for a window without a place in a grid of such cells: an empty or an infinite one.
        """
        low, high = float(literals[self.lower]), float(literals[self.upper])
        width = high - low
        if not (math.isfinite(low) and math.isfinite(high) and 0 <= width < math.inf):
            return None
        exponent = math.frexp(width)[1] if width else 0
        size = math.ldexp(1.0, exponent) if abs(exponent) < _MOST_EXPONENT else 0.0
        return size if size and max(abs(low), abs(high)) / size < _MOST_CELLS else None

    def cells(self, literals: Sequence[Literal], size: float) -> tuple[float, ...]:
        """The cells that the window touches: two at most, where they are not narrower than it."""
        first, last = float(literals[self.lower]) // size, float(literals[self.upper]) // size
        return (first,) if first == last else (first, last)


def windows(holes: Mapping[int, Hole]) -> list[Window]:
    """The pairs of thresholds of one subject among holes by position, in their order."""
    lower: dict[int, int] = {}
    upper: dict[int, int] = {}
    for position, hole in holes.items():
        if hole.subject is None:
            continue
        if hole.operator in _LOWER:
            lower.setdefault(hole.subject, position)
        elif hole.operator in _UPPER:
            upper.setdefault(hole.subject, position)
    return [Window(lower[each], upper[each]) for each in lower if each in upper]
