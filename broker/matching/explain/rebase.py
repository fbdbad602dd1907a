"""Rebases an expression of a predicate: its relative paths start at a given node."""

from __future__ import annotations

import attrs

from broker.matching.query import tree
from broker.matching.query.function_signature import CORE_FUNCTIONS
from broker.matching.query.tree import PathStart

#: Functions that depend on the predicate's own node-set or on the document of its node.
_BOUND = frozenset({"position", "last", "id", "lang"})


def rebase(expression: tree.Expression, node: tree.Expression) -> tree.Expression | None:
    """Return the expression evaluated at `node`, a node-set of one; None if that is impossible."""
    match expression:
        case tree.Path(start=start):
            if start is PathStart.CONTEXT:
                return attrs.evolve(expression, start=node)
            if isinstance(start, PathStart):
                return expression
            moved = rebase(start, node)
            return None if moved is None else attrs.evolve(expression, start=moved)
        case tree.Filter(primary=primary):
            moved = rebase(primary, node)
            return None if moved is None else attrs.evolve(expression, primary=moved)
        case tree.Negation(operand=operand):
            moved = rebase(operand, node)
            return None if moved is None else attrs.evolve(expression, operand=moved)
        case tree.Binary(left=left, right=right):
            one, other = rebase(left, node), rebase(right, node)
            if one is None or other is None:
                return None
            return attrs.evolve(expression, left=one, right=other)
        case tree.Chain(operands=operands):
            every = _rebase_all(operands, node)
            return None if every is None else attrs.evolve(expression, operands=every)
        case tree.FunctionCall(name=name, arguments=arguments):
            if name in _BOUND:
                return None
            if not arguments and CORE_FUNCTIONS[name].reads_context:
                return attrs.evolve(expression, arguments=(node,))
            every = _rebase_all(arguments, node)
            return None if every is None else attrs.evolve(expression, arguments=every)
        case tree.Number() | tree.Literal() | tree.Variable():
            return expression


def _rebase_all(
    expressions: tuple[tree.Expression, ...], node: tree.Expression
) -> tuple[tree.Expression, ...] | None:
    found = []
    for expression in expressions:
        moved = rebase(expression, node)
        if moved is None:
            return None
        found.append(moved)
    return tuple(found)
