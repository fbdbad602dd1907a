"""Parameters of a query template: comparisons of a value with a literal (checklist F5)."""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import attrs

#: UTF-8 text for a text parameter, a number for a number parameter. Values have the same types.
Literal: TypeAlias = bytes | float


class Operator(enum.Enum):
    """Comparison of a parameter: `value OPERATOR literal`, as in XPath 1.0.

    With NaN on either side only `NUMBER_NOT_EQUAL` is true.
    """

    EQUAL = "text ="
    NOT_EQUAL = "text !="
    STARTS_WITH = "starts-with"
    CONTAINS = "contains"
    NUMBER_EQUAL = "="
    NUMBER_NOT_EQUAL = "!="
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="


_TESTS: dict[Operator, Callable[[Any, Any], bool]] = {
    Operator.EQUAL: operator.eq,
    Operator.NOT_EQUAL: operator.ne,
    Operator.STARTS_WITH: bytes.startswith,
    Operator.CONTAINS: operator.contains,
    Operator.NUMBER_EQUAL: operator.eq,
    Operator.NUMBER_NOT_EQUAL: operator.ne,
    Operator.LESS: operator.lt,
    Operator.LESS_EQUAL: operator.le,
    Operator.GREATER: operator.gt,
    Operator.GREATER_EQUAL: operator.ge,
}
_TEXT = frozenset({Operator.EQUAL, Operator.NOT_EQUAL, Operator.STARTS_WITH, Operator.CONTAINS})
_THRESHOLDS = frozenset(
    {Operator.LESS, Operator.LESS_EQUAL, Operator.GREATER, Operator.GREATER_EQUAL}
)
_EQUALITIES = frozenset({Operator.EQUAL, Operator.NUMBER_EQUAL})


@attrs.frozen
class Parameter:
    """One comparison of a template, whose members differ in its literal.

    Parameters with the same `subject` compare the same expression on the same node; None is
    unknown. Two thresholds of one subject are a window.
    """

    operator: Operator
    subject: int | None = None

    @property
    def is_numeric(self) -> bool:
        return self.operator not in _TEXT

    @property
    def is_threshold(self) -> bool:
        return self.operator in _THRESHOLDS

    @property
    def is_equality(self) -> bool:
        """True if a value matches at most one literal."""
        return self.operator in _EQUALITIES

    @property
    def test(self) -> Callable[[Any, Any], bool]:
        return _TESTS[self.operator]

    def is_unsatisfiable(self, literal: Literal) -> bool:
        """True if no value matches the literal: NaN, except for `NUMBER_NOT_EQUAL`."""
        return literal != literal and self.operator is not Operator.NUMBER_NOT_EQUAL


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

        None for a window that is empty, infinite or beyond the range of cells.
        """
        low, high = float(literals[self.lower]), float(literals[self.upper])
        width = high - low
        if not (math.isfinite(low) and math.isfinite(high) and 0 <= width < math.inf):
            return None
        exponent = math.frexp(width)[1] - 2 if width else 0
        size = math.ldexp(1.0, exponent) if abs(exponent) < _MOST_EXPONENT else 0.0
        return size if size and max(abs(low), abs(high)) / size < _MOST_CELLS else None

    def touched_cells(self, literals: Sequence[Literal], size: float) -> Sequence[float]:
        """Return the cells that the window touches: at most five of the width `cell_size`."""
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
