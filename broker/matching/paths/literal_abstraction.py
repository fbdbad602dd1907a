"""Templates as expressions with unknown literals.

The requirements of one query hold for its whole template only if its literal does not matter.
`count(//leg) > 3` requires a leg, `count(//leg) > -1` does not; both have one template.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from broker.matching.paths.emptiness import outermost_node_sets, value_if_empty
from broker.matching.query.tree import (
    Binary,
    Chain,
    Expression,
    Filter,
    FunctionCall,
    Literal,
    Negation,
    Number,
    Path,
    PathStart,
    Step,
    ValueType,
    Variable,
)
from broker.matching.query.value_type import value_type

_ANY_TEXT, _ANY_NUMBER = "ClientId", "TimeStamp"


def abstract_literals(expression: Expression, parameter_at: Mapping[int, int]) -> Expression:
    """Replace each literal that influences the requirements by a variable.

    `parameter_at` has the positions of the template's parameters. A text literal stays if only its
    emptiness matters, because templates distinguish that.
    """
    return _LiteralAbstraction(parameter_at).rewrite(expression)


class _LiteralAbstraction:
    def __init__(self, parameter_at: Mapping[int, int]) -> None:
        self._parameter_at = parameter_at

    def rewrite(self, expression: Expression) -> Expression:
        match expression:
            case Binary(position=position, left=left, right=right):
                if position in self._parameter_at:
                    return self._rewrite_comparison(expression)
                return attrs.evolve(expression, left=self.rewrite(left), right=self.rewrite(right))
            case FunctionCall(position=position, arguments=arguments):
                if position in self._parameter_at:
                    subject, literal = self.rewrite(arguments[0]), arguments[1]
                    if _is_decisive(subject):
                        literal = _unknown_value(literal)
                    return attrs.evolve(expression, arguments=(subject, literal))
                return attrs.evolve(expression, arguments=tuple(map(self.rewrite, arguments)))
            case Chain(operands=operands):
                return attrs.evolve(expression, operands=tuple(map(self.rewrite, operands)))
            case Negation(operand=operand):
                return attrs.evolve(expression, operand=self.rewrite(operand))
            case Filter(primary=primary, predicates=predicates):
                return attrs.evolve(
                    expression,
                    primary=self.rewrite(primary),
                    predicates=tuple(map(self.rewrite, predicates)),
                )
            case Path(start=start, steps=steps):
                begin = start if isinstance(start, PathStart) else self.rewrite(start)
                return attrs.evolve(
                    expression, start=begin, steps=tuple(map(self._rewrite_step, steps))
                )
        return expression

    def _rewrite_step(self, step: Step) -> Step:
        return attrs.evolve(step, predicates=tuple(map(self.rewrite, step.predicates)))

    def _rewrite_comparison(self, node: Binary) -> Binary:
        if _is_literal(node.left):
            right = self.rewrite(node.right)
            return attrs.evolve(
                node, left=_abstract_operand(node.operator, right, node.left), right=right
            )
        left = self.rewrite(node.left)
        return attrs.evolve(
            node, left=left, right=_abstract_operand(node.operator, left, node.right)
        )


def _abstract_operand(operator: str, subject: Expression, literal: Expression) -> Expression:
    textual = isinstance(literal, Literal) and operator in ("=", "!=")
    if textual and value_type(subject) is ValueType.STRING and not _is_decisive(subject):
        return literal
    return _unknown_value(literal)


def _is_decisive(subject: Expression) -> bool:
    """Return True if a compared text can influence the requirements."""
    return any(
        isinstance(value := value_if_empty(subject, node_set), (str, float, bool)) and value != ""
        for node_set in outermost_node_sets(subject)
    )


def _is_literal(expression: Expression) -> bool:
    return isinstance(expression, (Literal, Number)) or (
        isinstance(expression, Negation) and isinstance(expression.operand, Number)
    )


def _unknown_value(literal: Expression) -> Expression:
    kind = _ANY_TEXT if isinstance(literal, Literal) else _ANY_NUMBER
    return Variable(literal.position, kind)
