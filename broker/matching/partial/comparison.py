"""Comparisons without a literal: two node-sets, two computed values (XPath 1.0, section 3.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from broker.matching.partial import function_library as functions
from broker.matching.partial.guarded_value import Cases, applied, check
from broker.matching.partial.formula import FALSE, TRUE, Formula, all_of, any_of, negation, same
from broker.matching.partial.node_set import Context, NodeSet
from broker.matching.partial.source import Constant
from broker.matching.partial.undecidable import Undecidable
from broker.matching.partial.work_budget import Work
from broker.matching.query import tree
from broker.matching.query.tree import ValueType
from broker.matching.query.value_type import value_type
from broker.matching.shape.tree import Node

#: Pairs of two node-sets that are compared each; more are decided of constants only.
MAX_PAIRS = 1_024

_OPERATORS: dict[str, Callable[..., bool]] = {
    "=": functions.equal,
    "!=": functions.unequal,
    "<": functions.less,
    "<=": functions.less_equal,
    ">": functions.greater,
    ">=": functions.greater_equal,
}


class IReader(Protocol):
    """What gives the operands' values."""

    work: Work

    def boolean(self, expression: tree.Expression, context: Context) -> Formula: ...
    def number(self, expression: tree.Expression, context: Context) -> Cases: ...
    def text(self, expression: tree.Expression, context: Context) -> Cases: ...
    def nodes(self, expression: tree.Expression, context: Context) -> NodeSet: ...
    def text_of(self, node: Node) -> Cases: ...
    def number_of(self, node: Node) -> Cases: ...


def compared(reader: IReader, node: tree.Binary, context: Context) -> Formula:
    """Whether the comparison holds."""
    sides = (node.left, node.right)
    kinds = {value_type(side) for side in sides}
    equality = node.operator in ("=", "!=")
    if ValueType.BOOLEAN in kinds:
        if equality:
            # Without a loop, which would be one more frame: such comparisons are nested deeply.
            agreed = same(reader.boolean(node.left, context), reader.boolean(node.right, context))
            return agreed if node.operator == "=" else negation(agreed)
        if ValueType.NODE_SET in kinds:
            raise Undecidable("an order of a node-set and a boolean is not decided on a shape")
    numeric = not equality or ValueType.NUMBER in kinds
    left, right = (_values(reader, side, context, numeric=numeric) for side in sides)
    if len(left) * len(right) > MAX_PAIRS:
        some, others = _constants(left), _constants(right)
        if some is not None and others is not None:
            reader.work.spend(len(some) + len(others))
            return TRUE if _any_pair(node.operator, some, others) else FALSE
        raise Undecidable(f"two node-sets have more than {MAX_PAIRS} pairs")
    reader.work.spend(len(left) * len(right))
    function = _OPERATORS[node.operator]
    join = reader.work.join
    return any_of(
        [
            all_of(join((one_when, other_when, _holds(function, one, other))))
            for one_when, one in left
            for other_when, other in right
        ]
    )


def _values(
    reader: IReader, side: tree.Expression, context: Context, *, numeric: bool
) -> list[tuple[Formula, Cases]]:
    """Each member's value with its condition, or the one value."""
    if value_type(side) is not ValueType.NODE_SET:
        read: Callable[..., Any] = reader.number if numeric else reader.text
        return [(all_of(()), read(side, context))]
    members = []
    for node, condition in reader.nodes(side, context):
        members.append((condition, reader.number_of(node) if numeric else reader.text_of(node)))
    return members


def _constants(values: list[tuple[Formula, Cases]]) -> list[Any] | None:
    """The values themselves if all are known, as in a parsed document."""
    found = []
    for when, cases in values:
        [(case, source), *more] = cases
        if when is not TRUE or case is not TRUE or more or not isinstance(source, Constant):
            return None
        found.append(source.value)
    return found


def _any_pair(operator: str, left: list[Any], right: list[Any]) -> bool:
    """Whether the comparison holds for some pair, in less time than there are pairs."""
    # A NaN is equal to nothing, not even to itself, and different from everything.
    some, others = ({value for value in side if value == value} for side in (left, right))
    if operator == "=":
        return not some.isdisjoint(others)
    if operator == "!=":
        return len(some | others) > 1 or any(value != value for value in (*left, *right))
    if not some or not others:
        return False
    if operator in ("<", "<="):
        return _OPERATORS[operator](min(some), max(others))
    return _OPERATORS[operator](max(some), min(others))


def _holds(function: Callable[..., bool], one: Cases, other: Cases) -> Formula:
    return any_of([all_of((when, check(source))) for when, source in applied(function, one, other)])
