"""Rebases an expression of a predicate: its relative paths start at a given node."""

from __future__ import annotations

import attrs

from broker.matching.query import tree
from broker.matching.query.tree import PathStart
from broker.matching.query.value_type import CORE_FUNCTIONS

#: Functions that depend on the predicate's own node-set or on the document of its node.
_BOUND = frozenset({"position", "last", "id", "lang"})


def rebase(expression: tree.Expression, node: tree.Expression) -> tree.Expression | None:
    """Return the expression evaluated at `node`, a node-set of one; None if that is impossible."""

    def move(each: tree.Expression) -> tree.Expression:
        match each:
            case tree.Path(start=PathStart.CONTEXT):
                return attrs.evolve(each, start=node)
            case tree.FunctionCall(name=name, arguments=()) if CORE_FUNCTIONS[name].reads_context:
                return attrs.evolve(each, arguments=(node,))
        return tree.map_subexpressions(each, move)

    calls = (each for each in tree.walk(expression) if isinstance(each, tree.FunctionCall))
    return None if any(call.name in _BOUND for call in calls) else move(expression)
