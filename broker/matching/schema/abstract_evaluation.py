"""Abstract evaluation of a query on all valid documents of a type at once (X10, F7).

The result of an expression includes every value that it has on any valid document. So a query that
can not be true here matches no valid event. The opposite is not claimed.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

from broker.dtd.reference import DtdReference
from broker.event.envelope import Liveness, SecurityLevel
from broker.matching.query import tree
from broker.matching.query.query import Query
from broker.matching.query.value_type import value_type
from broker.matching.schema.abstract_value import (
    UNKNOWN_NUMBER,
    UNKNOWN_STRING,
    NodeSet,
    Numbers,
    Strings,
    Truth,
    Value,
    to_numbers,
    to_truth,
    unite,
)
from broker.matching.schema.axis import follow_axis, select_elements
from broker.matching.schema.cause import deeper_cause
from broker.matching.schema.comparison import compare
from broker.matching.schema.function import evaluate_function
from broker.matching.schema.path_evaluation import PathEvaluation
from broker.matching.schema.read_labels import ReadLabels
from broker.matching.schema.schema import PayloadScope, Schema
from broker.matching.schema.schema_node import SchemaNode

_COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">="})
_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
_POSITIONS = Numbers(1.0, math.inf, False)
_NAN = Numbers(math.inf, -math.inf, True)
#: Functions of a node-set whose result does not depend on its text.
_NOT_OF_TEXT = frozenset({"boolean", "not", "count", "local-name", "name", "namespace-uri"})
_OF_CONTEXT = frozenset(
    {"local-name", "name", "namespace-uri", "string", "number", "string-length", "normalize-space"}
)


class WorkLimitExceeded(Exception):
    """The query needs more work than allowed; its possible values are unknown."""


class AbstractEvaluation:
    """One query on the documents of one payload scope. Records the labels that it reads."""

    def __init__(
        self, query: Query, schema: Schema, scope: PayloadScope, reads: ReadLabels, work: int
    ) -> None:
        self._query = query
        self._reference = schema.reference
        self._scope = scope
        self._labels = reads
        self._paths = PathEvaluation(query, scope, reads, self._evaluate, self._spend)
        self.work = work

    def evaluate_truth(self) -> Truth:
        """Return the possible truth values of the query. Raises `WorkLimitExceeded` or
        `TooManyNodes`.
        """
        return to_truth(self._evaluate(self._query.expression, self._scope.document.element))

    def _spend(self, nodes: int) -> None:
        self.work -= nodes + 1
        if self.work < 0:
            raise WorkLimitExceeded

    def _evaluate(self, expression: tree.Expression, context: SchemaNode) -> Value:
        self._spend(0)
        match expression:
            case tree.Path():
                return self._paths.evaluate_path(expression, context)
            case tree.Filter(primary=primary, predicates=predicates):
                node_set = self._evaluate(primary, context)
                assert isinstance(node_set, NodeSet)
                return self._paths.apply_predicates(node_set, predicates)
            case tree.Number(value=value):
                return _NAN if math.isnan(value) else Numbers(value, value, False)
            case tree.Literal(value=text):
                return Strings(frozenset({text}))
            case tree.Variable(name=name):
                return possible_values(name, self._reference)
            case tree.FunctionCall():
                return self._call(expression, context)
            case tree.Negation(operand=operand, signs=signs):
                number = to_numbers(self._evaluate_operand(operand, context))
                if signs % 2 == 0:
                    return number
                return Numbers(-number.high, -number.low, number.nan, number.cause)
            case tree.Binary():
                return self._binary(expression, context)
            case tree.Chain():
                return self._chain(expression, context)

    def _evaluate_operand(self, expression: tree.Expression, context: SchemaNode) -> Value:
        """Evaluate an operand whose text or number matters."""
        value = self._evaluate(expression, context)
        if isinstance(value, NodeSet):
            self._labels.add_text(value.members, self._spend)
        return value

    def _binary(self, binary: tree.Binary, context: SchemaNode) -> Value:
        if binary.operator in _COMPARISONS:
            sides = (binary.left, binary.right)
            of_text = tree.ValueType.BOOLEAN not in map(value_type, sides)
            evaluate = self._evaluate_operand if of_text else self._evaluate
            left, right = (evaluate(side, context) for side in sides)
            return compare(binary.operator, left, right, binary.position)
        one = to_numbers(self._evaluate_operand(binary.left, context)).point
        other = to_numbers(self._evaluate_operand(binary.right, context)).point
        calculate = _ARITHMETIC.get(binary.operator)
        if one is None or other is None or calculate is None:
            return UNKNOWN_NUMBER
        result = calculate(one, other)
        return _NAN if math.isnan(result) else Numbers(result, result, False)

    def _chain(self, chain: tree.Chain, context: SchemaNode) -> Value:
        values = [self._evaluate(operand, context) for operand in chain.operands]
        if chain.operator == "|":
            node_set = NodeSet(frozenset())
            for value in values:
                assert isinstance(value, NodeSet)
                node_set = unite(node_set, value)
            return node_set
        truths = [to_truth(value) for value in values]
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
        evaluate = self._evaluate if name in _NOT_OF_TEXT else self._evaluate_operand
        arguments = [evaluate(argument, context) for argument in function.arguments]
        if name == "id":
            found = follow_axis(tree.Axis.DESCENDANT, [context.root], self._spend)
            return NodeSet(select_elements(found))
        if name == "lang":
            self._labels.add_languages(
                follow_axis(tree.Axis.ANCESTOR_OR_SELF, [context], self._spend)
            )
        if not arguments and name in _OF_CONTEXT:
            here = frozenset({context})
            if name not in _NOT_OF_TEXT:
                self._labels.add_text(here, self._spend)
            arguments = [NodeSet(here, here)]
        return evaluate_function(name, arguments, function.position)


_LARGEST = 2.0**63
_LEVELS = frozenset(level.value for level in SecurityLevel)
_LIVENESS = frozenset(liveness.value for liveness in Liveness)


def possible_values(name: str, reference: DtdReference) -> Value:
    match name:
        case "EventType":
            return _one_of(frozenset({reference.type}), name)
        case "VersionNum":
            return _one_of(frozenset({reference.version}), name)
        case "Securitylevel":
            return _one_of(_LEVELS, name)
        case "Liveness":
            return _one_of(_LIVENESS, name)
        case "SequenceNumber":
            return Numbers(1.0, _LARGEST, False)
        case "TimeStamp" | "Incarnation":
            return Numbers(0.0, _LARGEST, False)
    return UNKNOWN_STRING


def _one_of(values: frozenset[str], name: str) -> Strings:
    return Strings(values, lambda: f"${name}")
