"""Evaluates a query on all valid documents of a type at once (X10, F7).

Every expression gives what it can be over all documents, and never less: a query that can not be
true here matches no valid event. Nothing is claimed the other way round.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

from broker.matching.query.query import Query
from broker.matching.query.tree import (
    Axis,
    Binary,
    Chain,
    Expression,
    Filter,
    FunctionCall,
    Literal,
    Negation,
    Number,
    Path,
    ValueType,
    Variable,
)
from broker.matching.query.value_type import value_type
from broker.matching.schema.axes import along, elements_of
from broker.matching.schema.blame import deepest
from broker.matching.schema.comparison import compare
from broker.matching.schema.functions import call
from broker.matching.schema.places import Place
from broker.matching.schema.reads import Reads
from broker.matching.schema.schema import Schema, Scope
from broker.matching.schema.values import (
    UNKNOWN_NUMBER,
    NodeSet,
    Numbers,
    Strings,
    Truth,
    Value,
    numbers_of,
    truth_of,
    union,
)
from broker.matching.schema.variables import variable
from broker.matching.schema.walk import Walk

_COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">="})
_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
_POSITIONS = Numbers(1.0, math.inf, False)
_NAN = Numbers(math.inf, -math.inf, True)
#: What they say of a node-set does not depend on the text in it.
_NOT_OF_TEXT = frozenset({"boolean", "not", "count", "local-name", "name", "namespace-uri"})
_OF_CONTEXT = frozenset(
    {"local-name", "name", "namespace-uri", "string", "number", "string-length", "normalize-space"}
)


class Exhausted(Exception):
    """The query needs more work than it may; what it can be is not known."""


class Interpretation:
    """One query on the documents of one scope. What it reads is noted in `reads`."""

    def __init__(self, query: Query, schema: Schema, scope: Scope, reads: Reads, work: int) -> None:
        """`work` bounds the places looked at."""
        self._query = query
        self._reference = schema.reference
        self._scope = scope
        self._reads = reads
        self._walk = Walk(query, scope, reads, self._evaluate, self._spend)
        self.work = work

    def truth(self) -> Truth:
        """What the query's boolean value can be; raises `Exhausted` or `TooManyPlaces`."""
        return truth_of(self._evaluate(self._query.expression, self._scope.document.element))

    def _spend(self, places: int) -> None:
        self.work -= places + 1
        if self.work < 0:
            raise Exhausted

    # ------------------------------------------------------------------ expressions

    def _evaluate(self, expression: Expression, context: Place) -> Value:
        self._spend(0)
        match expression:
            case Path():
                return self._walk.path(expression, context)
            case Filter(primary=primary, predicates=predicates):
                nodes = self._evaluate(primary, context)
                assert isinstance(nodes, NodeSet)
                return self._walk.filter(nodes, predicates)
            case Number(value=value):
                return _NAN if math.isnan(value) else Numbers(value, value, False)
            case Literal(value=text):
                return Strings(frozenset({text}))
            case Variable(name=name):
                return variable(name, self._reference)
            case FunctionCall():
                return self._call(expression, context)
            case Negation(operand=operand, signs=signs):
                number = numbers_of(self._read(operand, context))
                if signs % 2 == 0:
                    return number
                return Numbers(-number.high, -number.low, number.nan, number.why)
            case Binary():
                return self._binary(expression, context)
            case Chain():
                return self._chain(expression, context)

    def _read(self, expression: Expression, context: Place) -> Value:
        """The value of an operand whose text or number matters."""
        value = self._evaluate(expression, context)
        if isinstance(value, NodeSet):
            self._reads.text(value.places, self._spend)
        return value

    def _binary(self, binary: Binary, context: Place) -> Value:
        if binary.operator in _COMPARISONS:
            sides = (binary.left, binary.right)
            of_text = ValueType.BOOLEAN not in map(value_type, sides)
            evaluate = self._read if of_text else self._evaluate
            left, right = (evaluate(side, context) for side in sides)
            return compare(binary.operator, left, right, binary.position)
        one = numbers_of(self._read(binary.left, context)).point
        other = numbers_of(self._read(binary.right, context)).point
        calculate = _ARITHMETIC.get(binary.operator)
        if one is None or other is None or calculate is None:
            return UNKNOWN_NUMBER
        result = calculate(one, other)
        return _NAN if math.isnan(result) else Numbers(result, result, False)

    def _chain(self, chain: Chain, context: Place) -> Value:
        values = [self._evaluate(operand, context) for operand in chain.operands]
        if chain.operator == "|":
            nodes = NodeSet(frozenset())
            for value in values:
                assert isinstance(value, NodeSet)
                nodes = union(nodes, value)
            return nodes
        truths = [truth_of(value) for value in values]
        if chain.operator == "and":
            never = next((truth for truth in truths if not truth.can_be_true), None)
            return Truth(
                never is None,
                any(truth.can_be_false for truth in truths),
                None if never is None else never.why,
            )
        why = None
        for truth in truths:
            why = deepest(why, truth.why)
        return Truth(
            any(truth.can_be_true for truth in truths),
            all(truth.can_be_false for truth in truths),
            why,
        )

    def _call(self, function: FunctionCall, context: Place) -> Value:
        name = function.name
        if name in ("position", "last"):
            return _POSITIONS
        evaluate = self._evaluate if name in _NOT_OF_TEXT else self._read
        arguments = [evaluate(argument, context) for argument in function.arguments]
        if name == "id":
            found = along(Axis.DESCENDANT, [context.root], self._spend)
            return NodeSet(elements_of(found))
        if name == "lang":
            self._reads.languages(along(Axis.ANCESTOR_OR_SELF, [context], self._spend))
        if not arguments and name in _OF_CONTEXT:
            here = frozenset({context})
            if name not in _NOT_OF_TEXT:
                self._reads.text(here, self._spend)
            arguments = [NodeSet(here, here)]
        return call(name, arguments, function.position)
