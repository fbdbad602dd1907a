"""Windows: a lower and an upper threshold on one value."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import attrs

from broker.matching.index.parameter import Literal, Operator, Parameter

_LOWER = frozenset({Operator.GREATER, Operator.GREATER_EQUAL})
_UPPER = frozenset({Operator.LESS, Operator.LESS_EQUAL})
#: Doubles do not represent every cell number beyond this one.
_MOST_CELLS = 2.0**50
#: Largest exponent (base 2) of a cell width, so that cell numbers stay finite.
_MOST_EXPONENT = 900


@attrs.frozen(slots=True)
class Window:
    """Positions of the parameters for the lower and the upper bound."""

    lower: int
    upper: int

    def cell_size(self, literals: Sequence[Literal]) -> float | None:
        """Return the cell width: a power of two, between a quarter and half of the window.

        Narrow cells have fewer false matches, but a window touches more of them. None for a window
        that is empty, infinite or beyond the range of cells.
        """
        low, high = float(literals[self.lower]), float(literals[self.upper])
        width = high - low
        if not (math.isfinite(low) and math.isfinite(high) and 0 <= width < math.inf):
            return None
        exponent = math.frexp(width)[1] - 2 if width else 0
        size = math.ldexp(1.0, exponent) if abs(exponent) < _MOST_EXPONENT else 0.0
        return size if size and max(abs(low), abs(high)) / size < _MOST_CELLS else None

    def touched_cells(self, literals: Sequence[Literal], size: float) -> Sequence[float]:
        """Return the cells that the window touches: at most five if they are as wide as
        `cell_size`.
        """
        first, last = float(literals[self.lower]) // size, float(literals[self.upper]) // size
        return (first,) if first == last else [float(at) for at in range(int(first), int(last) + 1)]


def find_windows(parameters: Mapping[int, Parameter]) -> list[Window]:
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
