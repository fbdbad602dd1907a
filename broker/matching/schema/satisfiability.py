"""Whether a query can match any valid event of a type at all (X10)."""

from __future__ import annotations

import attrs

from broker.matching.query.query import Query
from broker.matching.schema.abstract_evaluation import AbstractEvaluation, WorkLimitExceeded
from broker.matching.schema.cause import Cause, FailedPart, Unsatisfiable, deeper_cause
from broker.matching.schema.document_graph import TooManyNodes
from broker.matching.schema.limits import MAX_WORK
from broker.matching.schema.read_labels import NoReadLabels, ReadLabels
from broker.matching.schema.schema import Schema


@attrs.frozen
class Analysis:
    """What a query is to a type."""

    unsatisfiable: Unsatisfiable | None
    labels: frozenset[str]
    #: What it reads.

    is_complete: bool
    #: False if it took too much work: then it may match, and may read anything.

    work: int
    #: Places looked at.


def check_satisfiability(
    query: Query, schema: Schema, work: int = MAX_WORK
) -> Unsatisfiable | None:
    """Why the query can match no valid event of this type and version; None if it may.

    Sound: what it calls impossible is so. `work` bounds the nodes looked at; where that does not
    suffice the answer is None.
    """
    return analyse_query(query, schema, work, reading=False).unsatisfiable


def analyse_query(
    query: Query, schema: Schema, work: int = MAX_WORK, *, reading: bool = True
) -> Analysis:
    """As `check_satisfiability`, and what the query reads of such events; no labels if not `reading`."""
    reads = ReadLabels() if reading else NoReadLabels()
    cause: Cause | None = None
    possible = not schema.scopes
    complete = bool(schema.scopes)
    left = work
    try:
        for scope in schema.scopes:
            interpretation = AbstractEvaluation(query, schema, scope, reads, left)
            truth = interpretation.evaluate_truth()
            left = interpretation.work
            possible = possible or truth.can_be_true
            if possible and not reading:
                break
            cause = deeper_cause(
                cause, truth.cause or FailedPart(0, lambda: "lets this never be true")
            )
    except (WorkLimitExceeded, TooManyNodes):
        possible, complete, left = True, False, 0
    impossible = None
    if not possible:
        assert cause is not None
        impossible = Unsatisfiable(schema.reference, cause)
    return Analysis(impossible, frozenset(reads.labels), complete, work - left)
