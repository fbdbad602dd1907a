"""Satisfiability of a query on an event type (X10)."""

from __future__ import annotations

import attrs

from broker.matching.query.query import Query
from broker.matching.schema.abstract_evaluation import AbstractEvaluation, WorkLimitExceeded
from broker.matching.schema.cause import Cause, FailedPart, Unsatisfiable, deeper_cause
from broker.matching.schema.document_graph import TooManyNodes
from broker.matching.schema.limits import MAX_WORK
from broker.matching.schema.path_evaluation import ReadLabels
from broker.matching.schema.schema import Schema


@attrs.frozen
class Analysis:
    """Result for a query on a type."""

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
    """Return the cause why no valid event of this type and version matches; None if one may match.

    The result is sound: an unsatisfiable query matches no valid event. `work` limits the schema
    nodes visited; beyond it the result is None.
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
