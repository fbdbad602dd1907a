"""Windows: two thresholds on one value, a lower and an upper one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import attrs

from broker.matching.index.parameter import Literal, Operator, Parameter

_LOWER = frozenset({Operator.GREATER, Operator.GREATER_EQUAL})
_UPPER = frozenset({Operator.LESS, Operator.LESS_EQUAL})
#: Cells beyond this number are not told apart exactly by a double.
_MOST_CELLS = 2.0**50
#: Of widths, as powers of two: beyond it cells could be no doubles.
_MOST_EXPONENT = 900


@attrs.frozen(slots=True)
class Window:
    """The positions of the parameters with the lower and the upper bound."""

    lower: int
    upper: int

    def cell_size(self, literals: Sequence[Literal]) -> float | None:
        """The width of cells for the window: a power of two, between a quarter and half of its own.

        Narrow cells hold few members that a value in them does not satisfy, and a member is in the
        more of them. None for a window without a place in a grid of such cells: an empty or an
        infinite one.
        """
        low, high = float(literals[self.lower]), float(literals[self.upper])
        width = high - low
        if not (math.isfinite(low) and math.isfinite(high) and 0 <= width < math.inf):
            return None
        exponent = math.frexp(width)[1] - 2 if width else 0
        size = math.ldexp(1.0, exponent) if abs(exponent) < _MOST_EXPONENT else 0.0
        return size if size and max(abs(low), abs(high)) / size < _MOST_CELLS else None

    def touched_cells(self, literals: Sequence[Literal], size: float) -> Sequence[float]:
        """The cells that the window touches: five at most, where they are of its size or wider."""
        first, last = float(literals[self.lower]) // size, float(literals[self.upper]) // size
        return (first,) if first == last else [float(at) for at in range(int(first), int(last) + 1)]


def find_windows(parameters: Mapping[int, Parameter]) -> list[Window]:
    """The pairs of thresholds of one subject among parameters by position, in their order."""
    lower: dict[int, int] = {}
    upper: dict[int, int] = {}
    for position, parameter in parameters.items():
        if parameter.subject is None:
            continue
        if parameter.operator in _LOWER:
            lower.setdefault(parameter.subject, position)
        elif parameter.operator in _UPPER:
            upper.setdefault(parameter.subject, position)
    return [Window(lower[each], upper[each]) for each in lower if each in upper]
