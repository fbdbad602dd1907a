"""Templates as expressions of which the literals are not known.

What one query of a template requires holds for all of them only where its literal does not decide:
`count(//leg) > 3` needs a leg, `count(//leg) > -1` does not, and both have one template.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from broker.matching.paths.emptiness import node_sets, value_without
from broker.matching.query.tree import (
    Binary,
    Chain,
    Expression,
    Filter,
    FunctionCall,
    Literal,
    Negation,
    Number,
    Origin,
    Path,
    Step,
    ValueType,
    Variable,
)
from broker.matching.query.value_type import value_type

_ANY_TEXT, _ANY_NUMBER = "ClientId", "TimeStamp"


def without_literals(expression: Expression, hole_at: Mapping[int, int]) -> Expression:
    """The expression with a variable instead of each literal that decides what is required.

    `hole_at` has the positions of the comparisons and calls that literals were taken out of. Where
    only it matters whether a text literal is empty, it stays: templates tell these apart.
    """
    return _Rewriting(hole_at).of(expression)


class _Rewriting:
    def __init__(self, hole_at: Mapping[int, int]) -> None:
        self._hole_at = hole_at

    def of(self, expression: Expression) -> Expression:
        match expression:
            case Binary(position=position, left=left, right=right):
                if position in self._hole_at:
                    return self._comparison(expression)
                return attrs.evolve(expression, left=self.of(left), right=self.of(right))
            case FunctionCall(position=position, arguments=arguments):
                if position in self._hole_at:
                    subject, literal = self.of(arguments[0]), arguments[1]
                    if _decides(subject):
                        literal = _unknown(literal)
                    return attrs.evolve(expression, arguments=(subject, literal))
                return attrs.evolve(expression, arguments=tuple(map(self.of, arguments)))
            case Chain(operands=operands):
                return attrs.evolve(expression, operands=tuple(map(self.of, operands)))
            case Negation(operand=operand):
                return attrs.evolve(expression, operand=self.of(operand))
            case Filter(primary=primary, predicates=predicates):
                return attrs.evolve(
                    expression,
                    primary=self.of(primary),
                    predicates=tuple(map(self.of, predicates)),
                )
            case Path(start=start, steps=steps):
                begin = start if isinstance(start, Origin) else self.of(start)
                return attrs.evolve(expression, start=begin, steps=tuple(map(self._step, steps)))
        return expression

    def _step(self, step: Step) -> Step:
        return attrs.evolve(step, predicates=tuple(map(self.of, step.predicates)))

    def _comparison(self, node: Binary) -> Binary:
        if _is_literal(node.left):
            right = self.of(node.right)
            return attrs.evolve(node, left=_left_open(node.operator, right, node.left), right=right)
        left = self.of(node.left)
        return attrs.evolve(node, left=left, right=_left_open(node.operator, left, node.right))


def _left_open(operator: str, subject: Expression, literal: Expression) -> Expression:
    textual = isinstance(literal, Literal) and operator in ("=", "!=")
    if textual and value_type(subject) is ValueType.STRING and not _decides(subject):
        return literal
    return _unknown(literal)


def _decides(subject: Expression) -> bool:
    """Whether a text that the subject is compared with can decide what is required."""
    return any(
        isinstance(value := value_without(subject, node_set), (str, float, bool)) and value != ""
        for node_set in node_sets(subject)
    )


def _is_literal(expression: Expression) -> bool:
    return isinstance(expression, (Literal, Number)) or (
        isinstance(expression, Negation) and isinstance(expression.operand, Number)
    )


def _unknown(literal: Expression) -> Expression:
    kind = _ANY_TEXT if isinstance(literal, Literal) else _ANY_NUMBER
    return Variable(literal.position, kind)
