"""Comparison of two node-sets or computed values (XPath 1.0, section 3.4)."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from broker.matching.partial.formula import (
    FALSE,
    TRUE,
    Formula,
    all_of,
    any_of,
    equivalence,
    negate,
)
from broker.matching.partial.guarded_value import GuardedValue, apply_function, truth_formula
from broker.matching.partial.node_set import Context
from broker.matching.partial.source import Constant
from broker.matching.partial.value_evaluator import ValueEvaluator
from broker.matching.partial.work_budget import Undecidable
from broker.matching.query import tree
from broker.matching.query.tree import ValueType
from broker.matching.query.value_type import value_type

#: Pairs of two node-sets; larger products are compared only if all members are constants.
MAX_PAIRS = 1_024

_OPERATORS: dict[str, Callable[..., bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compare_operands(evaluator: ValueEvaluator, node: tree.Binary, context: Context) -> Formula:
    sides = (node.left, node.right)
    kinds = {value_type(side) for side in sides}
    equality = node.operator in ("=", "!=")
    if ValueType.BOOLEAN in kinds:
        if equality:
            # No loop, which would add a frame per level: such comparisons nest deeply.
            agreed = equivalence(
                evaluator.evaluate_boolean(node.left, context),
                evaluator.evaluate_boolean(node.right, context),
            )
            return agreed if node.operator == "=" else negate(agreed)
        if ValueType.NODE_SET in kinds:
            raise Undecidable("ordering a node-set and a boolean is not decided on a shape")
    numeric = not equality or ValueType.NUMBER in kinds
    left, right = (_operand_values(evaluator, side, context, numeric=numeric) for side in sides)
    if len(left) * len(right) > MAX_PAIRS:
        some, others = _constant_values(left), _constant_values(right)
        if some is not None and others is not None:
            evaluator.work.spend(len(some) + len(others))
            return TRUE if _some_pair_holds(node.operator, some, others) else FALSE
        raise Undecidable(f"two node-sets have more than {MAX_PAIRS} pairs")
    evaluator.work.spend(len(left) * len(right))
    function = _OPERATORS[node.operator]
    join = evaluator.work.spend_on_join
    return any_of(
        [
            all_of(join((one_when, other_when, _compare_pair(function, one, other))))
            for one_when, one in left
            for other_when, other in right
        ]
    )


def _operand_values(
    evaluator: ValueEvaluator, side: tree.Expression, context: Context, *, numeric: bool
) -> list[tuple[Formula, GuardedValue]]:
    """Each member's value with its condition, or the one value."""
    if value_type(side) is not ValueType.NODE_SET:
        read: Callable[..., Any] = evaluator.evaluate_number if numeric else evaluator.evaluate_text
        return [(all_of(()), read(side, context))]
    members = []
    for node, condition in evaluator.evaluate_nodes(side, context):
        members.append(
            (condition, evaluator.number_value(node) if numeric else evaluator.string_value(node))
        )
    return members


def _constant_values(values: list[tuple[Formula, GuardedValue]]) -> list[Any] | None:
    """The values if all are unconditional constants, as in a parsed document."""
    found = []
    for when, cases in values:
        [(case, source), *more] = cases
        if when is not TRUE or case is not TRUE or more or not isinstance(source, Constant):
            return None
        found.append(source.value)
    return found


def _some_pair_holds(operator: str, left: list[Any], right: list[Any]) -> bool:
    # NaN equals nothing, not even itself, and differs from everything.
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


def _compare_pair(function: Callable[..., bool], one: GuardedValue, other: GuardedValue) -> Formula:
    return any_of(
        [
            all_of((when, truth_formula(source)))
            for when, source in apply_function(function, one, other)
        ]
    )
