"""Abstract evaluation of expressions: the set of their possible values."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

from broker.matching.query import tree
from broker.matching.query.value_type import value_type
from broker.matching.schema.abstract_value import (
    NAN,
    UNKNOWN_NUMBER,
    NodeSet,
    Numbers,
    Strings,
    Truth,
    Value,
    to_numbers,
    to_truth,
)
from broker.matching.schema.cause import deeper_cause
from broker.matching.schema.comparison import compare
from broker.matching.schema.function import evaluate_function
from broker.matching.schema.schema_node import SchemaNode

_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
_POSITIONS = Numbers(1.0, math.inf, False)
#: Functions of a node-set whose result does not depend on its text.
_NOT_OF_TEXT = frozenset({"boolean", "not", "count", "local-name", "name", "namespace-uri"})
_OF_CONTEXT = frozenset(
    {"local-name", "name", "namespace-uri", "string", "number", "string-length", "normalize-space"}
)


class ExpressionEvaluation:
    def evaluate_nodes(self, expression: tree.Expression, context: SchemaNode) -> NodeSet:
        raise NotImplementedError

    def evaluate_variable(self, name: str) -> Value:
        raise NotImplementedError

    def read_text(self, node_set: NodeSet) -> None:
        """Called for each node-set whose text or number matters."""

    def read_languages(self, context: SchemaNode) -> None:
        """Called if the language of the context node matters."""

    def evaluate(self, expression: tree.Expression, context: SchemaNode) -> Value:
        if value_type(expression) is tree.ValueType.NODE_SET:
            return self.evaluate_nodes(expression, context)
        match expression:
            case tree.Number(value=value):
                return _number(value)
            case tree.Literal(value=text):
                return Strings(frozenset({text}))
            case tree.Variable(name=name):
                return self.evaluate_variable(name)
            case tree.Negation(operand=operand, signs=signs):
                number = to_numbers(self._evaluate_operand(operand, context))
                if signs % 2 == 0:
                    return number
                return Numbers(-number.high, -number.low, number.nan, number.cause)
            case tree.Binary():
                return self._binary(expression, context)
            case tree.Chain():
                return self._chain(expression, context)
            case tree.FunctionCall():
                return self._call(expression, context)
        raise AssertionError(expression)

    def _evaluate_operand(self, expression: tree.Expression, context: SchemaNode) -> Value:
        value = self.evaluate(expression, context)
        if isinstance(value, NodeSet):
            self.read_text(value)
        return value

    def _binary(self, binary: tree.Binary, context: SchemaNode) -> Value:
        if binary.operator in tree.MIRRORED_OPERATORS:
            sides = (binary.left, binary.right)
            of_text = tree.ValueType.BOOLEAN not in map(value_type, sides)
            evaluate = self._evaluate_operand if of_text else self.evaluate
            left, right = (evaluate(side, context) for side in sides)
            return compare(binary.operator, left, right, binary.position)
        numbers = [
            to_numbers(self._evaluate_operand(side, context))
            for side in (binary.left, binary.right)
        ]
        if any(number.low > number.high for number in numbers):
            return NAN
        one, other = (number.point for number in numbers)
        calculate = _ARITHMETIC.get(binary.operator)
        if one is None or other is None or calculate is None:
            return UNKNOWN_NUMBER
        return _number(calculate(one, other))

    def _chain(self, chain: tree.Chain, context: SchemaNode) -> Value:
        truths = [to_truth(self.evaluate(operand, context)) for operand in chain.operands]
        if chain.operator == "and":
            never = next((truth for truth in truths if not truth.can_be_true), None)
            return Truth(
                never is None,
                any(truth.can_be_false for truth in truths),
                None if never is None else never.cause,
            )
        cause = None
        for truth in truths:
            cause = deeper_cause(cause, truth.cause)
        return Truth(
            any(truth.can_be_true for truth in truths),
            all(truth.can_be_false for truth in truths),
            cause,
        )

    def _call(self, function: tree.FunctionCall, context: SchemaNode) -> Value:
        name = function.name
        if name in ("position", "last"):
            return _POSITIONS
        of_text = name not in _NOT_OF_TEXT
        evaluate = self._evaluate_operand if of_text else self.evaluate
        arguments = [evaluate(argument, context) for argument in function.arguments]
        if name == "lang":
            self.read_languages(context)
        if not arguments and name in _OF_CONTEXT:
            here = NodeSet(frozenset({context}), frozenset({context}))
            if of_text:
                self.read_text(here)
            arguments = [here]
        return evaluate_function(name, arguments, function.position)


def _number(value: float) -> Numbers:
    return NAN if math.isnan(value) else Numbers(value, value, False)
