"""Value of an expression if one of its node-sets is empty.

The analysis is three-valued: a known value, or unknown. If a test is false for an empty node-set,
the test requires a node. That holds for `x > 5`, `number(x) = 5`, `string(x) != ""` or `count(x) >=
1`, and not for `starts-with(x, "")` or `count(x) < 1`.
"""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias
from typing import Literal as Constant

from broker.matching.query import tree
from broker.matching.query.number import parse_number
from broker.matching.query.value_type import value_type


class _Indefinite(enum.Enum):
    EMPTY = "an empty node-set"
    UNKNOWN = "any value of its type"


EMPTY: Final = _Indefinite.EMPTY
UNKNOWN: Final = _Indefinite.UNKNOWN
KnownValue: TypeAlias = bool | float | str
Value: TypeAlias = KnownValue | _Indefinite

_ORDER: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_EXACT_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
#: Functions with an empty result if their first argument is empty.
_EMPTY_IF_FIRST_IS = frozenset(
    {"normalize-space", "substring", "substring-before", "substring-after", "translate"}
)
_NAME_FUNCTIONS = frozenset({"local-name", "name", "namespace-uri"})


def outermost_node_sets(expression: tree.Expression) -> Iterator[tree.Expression]:
    """Yield the outermost node-sets in an expression, those in predicates excluded."""
    if value_type(expression) is tree.ValueType.NODE_SET:
        yield expression
        return
    for each in tree.subexpressions_of(expression):
        yield from outermost_node_sets(each)


def truth_if_empty(
    expression: tree.Expression, empty: tree.Expression | None = None
) -> bool | Constant[_Indefinite.UNKNOWN]:
    """Return the boolean value if the emptiness of `empty` (a node in the tree) decides it."""
    return _boolean(_value_if_empty(expression, empty))


def value_if_empty(expression: tree.Expression, empty: tree.Expression) -> Value:
    """Return the known value if `empty` (a node in the tree) is an empty node-set."""
    return _value_if_empty(expression, empty)


def _value_if_empty(expression: tree.Expression, empty: tree.Expression | None) -> Value:
    if value_type(expression) is tree.ValueType.NODE_SET:
        return EMPTY if expression is empty else UNKNOWN
    match expression:
        case tree.Number(value=number):
            return number
        case tree.Literal(value=text):
            return text
        case tree.Negation(operand=operand, signs=signs):
            return _apply_signs(_number(_value_if_empty(operand, empty)), signs)
        case tree.Chain(operator=joint, operands=operands):
            return _join_booleans(
                joint, [_boolean(_value_if_empty(each, empty)) for each in operands]
            )
        case tree.Binary(operator=sign, left=left, right=right):
            one, other = _value_if_empty(left, empty), _value_if_empty(right, empty)
            if sign in _ORDER or sign in ("=", "!="):
                return _compare(sign, one, value_type(left), other, value_type(right))
            return _calculate(sign, _number(one), _number(other))
        case tree.FunctionCall(name=name, arguments=arguments):
            return _call_function(name, [_value_if_empty(each, empty) for each in arguments])
    return UNKNOWN


def _join_booleans(joint: str, values: list[bool | Constant[_Indefinite.UNKNOWN]]) -> Value:
    decisive = joint == "or"
    if decisive in values:
        return decisive
    return UNKNOWN if UNKNOWN in values else not decisive


def _apply_signs(value: Value, signs: int) -> Value:
    return -value if isinstance(value, float) and signs % 2 else value


def _calculate(sign: str, one: Value, other: Value) -> Value:
    if any(isinstance(v, float) and math.isnan(v) for v in (one, other)):
        return math.nan
    if sign in _EXACT_ARITHMETIC and isinstance(one, float) and isinstance(other, float):
        return _EXACT_ARITHMETIC[sign](one, other)
    return UNKNOWN


def _compare(
    sign: str, one: Value, one_type: tree.ValueType, other: Value, other_type: tree.ValueType
) -> Value:
    types = (one_type, other_type)
    if tree.ValueType.BOOLEAN in types:
        # A comparison with a boolean converts node-sets, and equality all other values too.
        one, other = (_boolean(v) if v is EMPTY or sign not in _ORDER else v for v in (one, other))
    elif EMPTY in (one, other):
        return False
    if isinstance(one, _Indefinite) or isinstance(other, _Indefinite):
        numeric = sign in _ORDER or tree.ValueType.NUMBER in types
        nan = any(isinstance(v, float | str) and math.isnan(_float(v)) for v in (one, other))
        return False if numeric and nan and sign != "!=" else UNKNOWN
    if sign in _ORDER:
        return _ORDER[sign](_float(one), _float(other))
    equal = (
        one == other if isinstance(one, str) and isinstance(other, str) else _are_equal(one, other)
    )
    return equal if sign == "=" else not equal


def _are_equal(one: KnownValue, other: KnownValue) -> bool:
    return _float(one) == _float(other)


def _call_function(name: str, values: list[Value]) -> Value:
    first = values[0] if values else UNKNOWN
    match name:
        case "true" | "false":
            return name == "true"
        case "boolean":
            return _boolean(first)
        case "not":
            truth_value = _boolean(first)
            return UNKNOWN if isinstance(truth_value, _Indefinite) else not truth_value
        case "number":
            return _number(first)
        case "count" | "sum":
            return 0.0 if first is EMPTY else UNKNOWN
        case "string":
            return _string(first)
        case "floor" | "ceiling" | "round":
            number = _number(first)
            return (
                number
                if isinstance(number, float) and (number != number or not number)
                else UNKNOWN
            )
        case "string-length":
            return 0.0 if _string(first) == "" else UNKNOWN
        case "starts-with" | "contains":
            text, part = _string(first), _string(values[1])
            if not isinstance(text, str) or not isinstance(part, str):
                return UNKNOWN
            return text.startswith(part) if name == "starts-with" else part in text
        case _ if name in _EMPTY_IF_FIRST_IS:
            return "" if _string(first) == "" else UNKNOWN
        case _ if name in _NAME_FUNCTIONS:
            return "" if first is EMPTY else UNKNOWN
    return UNKNOWN


def _boolean(value: Value) -> bool | Constant[_Indefinite.UNKNOWN]:
    match value:
        case _Indefinite.EMPTY:
            return False
        case _Indefinite.UNKNOWN:
            return UNKNOWN
        case float():
            return bool(value) and not math.isnan(value)
    return bool(value)


def _string(value: Value) -> str | Constant[_Indefinite.UNKNOWN]:
    if value is EMPTY:
        return ""
    # The format of numbers is not needed here.
    return value if isinstance(value, str) else UNKNOWN


def _number(value: Value) -> float | Constant[_Indefinite.UNKNOWN]:
    if value is EMPTY:
        return math.nan
    return UNKNOWN if isinstance(value, _Indefinite) else _float(value)


def _float(value: KnownValue) -> float:
    return parse_number(value) if isinstance(value, str) else float(value)
