"""The parameters of a query template: comparisons of a value with a literal (checklist F5)."""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable
from typing import Any, TypeAlias

import attrs

#: UTF-8 text for a text parameter, a number for a number parameter. Values have the same types.
Literal: TypeAlias = bytes | float


class Operator(enum.Enum):
    """How a parameter compares: `value OPERATOR literal`, with the meaning of XPath 1.0.

    NaN compares False on either side with everything but `NUMBER_NOT_EQUAL`, which is then True.
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


def _starts_with(value: bytes, literal: bytes) -> bool:
    return value.startswith(literal)


_TESTS: dict[Operator, Callable[[Any, Any], bool]] = {
    Operator.EQUAL: operator.eq,
    Operator.NOT_EQUAL: operator.ne,
    Operator.STARTS_WITH: _starts_with,
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
    """One comparison of a template; its members differ in the literal.

    Holes of the same `subject` compare the same expression on the same node: two thresholds of one
    subject are a window. None if nothing is known of it.
    """

    operator: Operator
    subject: int | None = None

    @property
    def is_numeric(self) -> bool:
        """Whether values and literals are floats; else they are bytes."""
        return self.operator not in _TEXT

    @property
    def is_threshold(self) -> bool:
        """Whether the parameter compares by order."""
        return self.operator in _THRESHOLDS

    @property
    def is_equality(self) -> bool:
        """Whether one literal at most satisfies a value."""
        return self.operator in _EQUALITIES

    @property
    def test(self) -> Callable[[Any, Any], bool]:
        """The comparison itself, called with a value and a literal."""
        return _TESTS[self.operator]

    def is_unsatisfiable(self, literal: Literal) -> bool:
        """Whether no value at all satisfies this literal: NaN, but for `NUMBER_NOT_EQUAL`."""
        return literal != literal and self.operator is not Operator.NUMBER_NOT_EQUAL
