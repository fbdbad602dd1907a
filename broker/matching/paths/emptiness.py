"""Value of an expression if one of its node-sets is empty.

A test that is false then requires a node: `x > 5`, `string(x) != ""`, but not `starts-with(x, "")`
or `count(x) < 1`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker.matching.query import tree
from broker.matching.query.tree import Expression, ValueType
from broker.matching.query.value_type import VARIABLE_TYPES, value_type
from broker.matching.schema.abstract_value import (
    UNKNOWN_NUMBER,
    UNKNOWN_STRING,
    NodeSet,
    Value,
    to_strings,
    to_truth,
)
from broker.matching.schema.expression_evaluation import ExpressionEvaluation
from broker.matching.schema.schema_node import NodeKind, SchemaNode

#: Stands for any node. Nothing is known of the name or the text of a namespace node.
_ANY_NODE: Final = SchemaNode(NodeKind.NAMESPACE, "any node")
_UNKNOWN_NODES: Final = NodeSet(frozenset({_ANY_NODE}))
_NO_NODES: Final = NodeSet(frozenset())


class _EmptinessEvaluation(ExpressionEvaluation):
    def __init__(self, empty: Expression | None) -> None:
        self._empty = empty

    def evaluate_nodes(self, expression: Expression, context: SchemaNode) -> NodeSet:
        return _NO_NODES if expression is self._empty else _UNKNOWN_NODES

    def evaluate_variable(self, name: str) -> Value:
        return UNKNOWN_NUMBER if VARIABLE_TYPES[name] is ValueType.NUMBER else UNKNOWN_STRING


def outermost_node_sets(expression: Expression) -> Iterator[Expression]:
    """Yield the outermost node-sets in an expression, those in predicates excluded."""
    if value_type(expression) is ValueType.NODE_SET:
        yield expression
        return
    for each in tree.subexpressions_of(expression):
        yield from outermost_node_sets(each)


def truth_if_empty(expression: Expression, empty: Expression | None = None) -> bool | None:
    """Return the boolean value if the emptiness of `empty` (a node in the tree) decides it."""
    truth = to_truth(_EmptinessEvaluation(empty).evaluate(expression, _ANY_NODE))
    return None if truth.can_be_true and truth.can_be_false else truth.can_be_true


def texts_if_empty(expression: Expression, empty: Expression | None) -> frozenset[str] | None:
    """Return the possible texts if `empty` (a node in the tree) is empty; None if unknown."""
    return to_strings(_EmptinessEvaluation(empty).evaluate(expression, _ANY_NODE)).values
