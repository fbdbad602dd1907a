"""Abstract evaluation of a query on all valid documents of a type at once (X10, F7).

A query that can not be true here matches no valid event. The opposite is not claimed.
"""

from __future__ import annotations

import attrs

from broker.dtd.reference import DtdReference
from broker.event.envelope import Liveness, SecurityLevel
from broker.matching.query import tree
from broker.matching.query.query import Query
from broker.matching.schema.abstract_value import (
    UNKNOWN_STRING,
    NodeSet,
    Numbers,
    Strings,
    Truth,
    Value,
    to_truth,
    unite,
)
from broker.matching.schema.axis import follow_axis, select_elements
from broker.matching.schema.cause import Cause, FailedPart, Unsatisfiable, deeper_cause
from broker.matching.schema.document_graph import TooManyNodes
from broker.matching.schema.expression_evaluation import ExpressionEvaluation
from broker.matching.schema.path_evaluation import PathEvaluation, ReadLabels
from broker.matching.schema.schema import PayloadScope, Schema
from broker.matching.schema.schema_node import MAX_WORK, SchemaNode


class WorkLimitExceeded(Exception):
    """The query needs more work than allowed; its possible values are unknown."""


class AbstractEvaluation(ExpressionEvaluation):
    """One query on the documents of one payload scope. Records the labels that it reads."""

    def __init__(
        self, query: Query, schema: Schema, scope: PayloadScope, reads: ReadLabels, work: int
    ) -> None:
        self._query = query
        self._reference = schema.reference
        self._scope = scope
        self._labels = reads
        self._paths = PathEvaluation(query, scope, reads, self.evaluate, self._spend)
        self.work = work

    def evaluate_truth(self) -> Truth:
        return to_truth(self.evaluate(self._query.expression, self._scope.document.element))

    def evaluate(self, expression: tree.Expression, context: SchemaNode) -> Value:
        self._spend(0)
        return super().evaluate(expression, context)

    def evaluate_nodes(self, expression: tree.Expression, context: SchemaNode) -> NodeSet:
        match expression:
            case tree.Path():
                return self._paths.evaluate_path(expression, context)
            case tree.Filter(primary=primary, predicates=predicates):
                node_set = self.evaluate_nodes(primary, context)
                return self._paths.apply_predicates(node_set, predicates)
            case tree.Chain(operands=operands):
                node_set = NodeSet(frozenset())
                for operand in operands:
                    node_set = unite(node_set, self.evaluate_nodes(operand, context))
                return node_set
            case tree.FunctionCall(arguments=(argument,)):
                self._evaluate_operand(argument, context)
        # The result of id() may be any element.
        found = follow_axis(tree.Axis.DESCENDANT, [context.root], self._spend)
        return NodeSet(select_elements(found))

    def evaluate_variable(self, name: str) -> Value:
        return possible_values(name, self._reference)

    def read_text(self, node_set: NodeSet) -> None:
        self._labels.add_text(node_set.members, self._spend)

    def read_languages(self, context: SchemaNode) -> None:
        found = follow_axis(tree.Axis.ANCESTOR_OR_SELF, [context], self._spend)
        self._labels.add_languages(found)

    def _spend(self, nodes: int) -> None:
        self.work -= nodes + 1
        if self.work < 0:
            raise WorkLimitExceeded


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


@attrs.frozen
class Analysis:
    unsatisfiable: Unsatisfiable | None
    labels: frozenset[str]
    #: Labels that the query reads.

    is_complete: bool
    #: False if the analysis took too much work: the query may match, and may read anything.

    work: int
    #: Schema nodes visited.


def check_satisfiability(
    query: Query, schema: Schema, work: int = MAX_WORK
) -> Unsatisfiable | None:
    """Return the cause why no valid event of this type matches; None if one may match.

    The result is sound. `work` limits the schema nodes visited; beyond it the result is None.
    """
    return analyse_query(query, schema, work, reading=False).unsatisfiable


def analyse_query(
    query: Query, schema: Schema, work: int = MAX_WORK, *, reading: bool = True
) -> Analysis:
    """Check satisfiability, and with `reading` collect the labels that the query reads."""
    reads = ReadLabels(reading=reading)
    cause: Cause | None = None
    possible = not schema.scopes
    complete = bool(schema.scopes)
    left = work
    try:
        for scope in schema.scopes:
            evaluation = AbstractEvaluation(query, schema, scope, reads, left)
            truth = evaluation.evaluate_truth()
            left = evaluation.work
            possible = possible or truth.can_be_true
            if possible and not reading:
                break
            cause = deeper_cause(
                cause, truth.cause or FailedPart(0, lambda: "makes this always false")
            )
    except (WorkLimitExceeded, TooManyNodes):
        possible, complete, left = True, False, 0
    unsatisfiable = None
    if not possible:
        assert cause is not None
        unsatisfiable = Unsatisfiable(schema.reference, cause)
    return Analysis(unsatisfiable, frozenset(reads.labels), complete, work - left)
