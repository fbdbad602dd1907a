"""Whether a query can match any valid event of a type at all (X10)."""

from __future__ import annotations

import attrs

from broker.matching.query.query import Query
from broker.matching.schema.blame import Blame, Impossible, Why, deepest
from broker.matching.schema.document import TooManyPlaces
from broker.matching.schema.interpretation import Exhausted, Interpretation
from broker.matching.schema.limits import MAX_WORK
from broker.matching.schema.reads import NoReads, Reads
from broker.matching.schema.schema import Schema


@attrs.frozen
class Analysis:
    """What a query is to a type."""

    impossible: Impossible | None
    labels: frozenset[str]
    #: What it reads.

    complete: bool
    #: False if it took too much work: then it may match, and may read anything.

    work: int
    #: Places looked at.


def satisfiable(query: Query, schema: Schema, work: int = MAX_WORK) -> Impossible | None:
    """Why the query can match no valid event of this type and version; None if it may.

    Sound: what it calls impossible is so. `work` bounds the places looked at; where that does not
    suffice the answer is None.
    """
    return analyse(query, schema, work, reading=False).impossible


def analyse(
    query: Query, schema: Schema, work: int = MAX_WORK, *, reading: bool = True
) -> Analysis:
    """As `satisfiable`, and what the query reads of such events; no labels if not `reading`."""
    reads = Reads() if reading else NoReads()
    why: Why | None = None
    possible = not schema.scopes
    complete = bool(schema.scopes)
    left = work
    try:
        for scope in schema.scopes:
            interpretation = Interpretation(query, schema, scope, reads, left)
            truth = interpretation.truth()
            left = interpretation.work
            possible = possible or truth.can_be_true
            if possible and not reading:
                break
            why = deepest(why, truth.why or Blame(0, lambda: "lets this never be true"))
    except (Exhausted, TooManyPlaces):
        possible, complete, left = True, False, 0
    impossible = None
    if not possible:
        assert why is not None
        impossible = Impossible(schema.reference, why)
    return Analysis(impossible, frozenset(reads.labels), complete, work - left)
