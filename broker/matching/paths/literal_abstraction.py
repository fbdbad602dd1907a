"""Templates as expressions with unknown literals.

The requirements of one query hold for its whole template only if its literal does not matter.
`count(//leg) > 3` requires a leg, `count(//leg) > -1` does not; both have one template.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from broker.matching.paths.emptiness import outermost_node_sets, value_if_empty
from broker.matching.query import tree
from broker.matching.query.value_type import value_type

_ANY_TEXT, _ANY_NUMBER = "ClientId", "TimeStamp"


def abstract_literals(
    expression: tree.Expression, parameter_at: Mapping[int, int]
) -> tree.Expression:
    """Replace each literal that influences the requirements by a variable.

    `parameter_at` has the positions of the template's parameters. A text literal stays if only its
    emptiness matters, because templates distinguish that.
    """

    def rewrite(expression: tree.Expression) -> tree.Expression:
        each = tree.map_subexpressions(expression, rewrite, in_predicates=True)
        if isinstance(each, tree.Binary) and each.position in parameter_at:
            if _is_literal(each.left):
                left = _abstract_operand(each.operator, each.right, each.left)
                return attrs.evolve(each, left=left)
            right = _abstract_operand(each.operator, each.left, each.right)
            return attrs.evolve(each, right=right)
        if isinstance(each, tree.FunctionCall) and each.position in parameter_at:
            subject, literal = each.arguments
            if _is_decisive(subject):
                return attrs.evolve(each, arguments=(subject, _unknown_value(literal)))
        return each

    return rewrite(expression)


def _abstract_operand(
    operator: str, subject: tree.Expression, literal: tree.Expression
) -> tree.Expression:
    textual = isinstance(literal, tree.Literal) and operator in ("=", "!=")
    if textual and value_type(subject) is tree.ValueType.STRING and not _is_decisive(subject):
        return literal
    return _unknown_value(literal)


def _is_decisive(subject: tree.Expression) -> bool:
    """Return True if a compared text can influence the requirements."""
    return any(
        isinstance(value := value_if_empty(subject, node_set), (str, float, bool)) and value != ""
        for node_set in outermost_node_sets(subject)
    )


def _is_literal(expression: tree.Expression) -> bool:
    return isinstance(expression, (tree.Literal, tree.Number)) or (
        isinstance(expression, tree.Negation) and isinstance(expression.operand, tree.Number)
    )


def _unknown_value(literal: tree.Expression) -> tree.Expression:
    kind = _ANY_TEXT if isinstance(literal, tree.Literal) else _ANY_NUMBER
    return tree.Variable(literal.position, kind)
