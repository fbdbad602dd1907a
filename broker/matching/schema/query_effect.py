"""What a newer version of a type does to a query (M16)."""

from __future__ import annotations

import enum

import attrs

from broker.matching.query.query import Query
from broker.matching.schema.limits import MAX_WORK
from broker.matching.schema.satisfiability import analyse_query
from broker.matching.schema.schema_difference import SchemaDifference, sort_labels


class Effect(enum.Enum):
    """In words of the wire."""

    UNAFFECTED = "unaffected"
    LOST = "can-not-match-any-more"
    """Events of the old version could match, no valid event of the new one can."""
    GAINED = "can-match-now"
    """Events of the old version could never match, those of the new one can."""
    READS = "reads-what-changed"
    """It may match both, but reads paths that came, went, or have other values."""


@attrs.frozen
class QueryEffect:
    """The effect on one query."""

    effect: Effect
    paths: tuple[str, ...] = ()
    #: What the query reads of all that came, went or changed.

    reason: str = ""
    #: Why it can not match, for `LOST` in the new version and for `GAINED` in the old one.


UNAFFECTED = QueryEffect(Effect.UNAFFECTED)


def find_effect(query: Query, between: SchemaDifference, work: int = MAX_WORK) -> QueryEffect:
    """What happens to a query between two versions.

    Where one of them takes too much work (`work`, for each), the query may read all that differs.
    A query that matches neither is unaffected: it was warned of when it was subscribed to.
    """
    old, new = analyse_query(query, between.old, work), analyse_query(query, between.new, work)
    if old.unsatisfiable is not None and new.unsatisfiable is not None:
        return UNAFFECTED
    gone = between.removed | between.changed.keys()
    fresh = between.added | between.changed.keys()
    touched = gone & old.labels | fresh & new.labels
    if not (old.is_complete and new.is_complete):
        touched = gone | fresh
    paths = tuple(sort_labels(touched))
    if new.unsatisfiable is not None:
        return QueryEffect(Effect.LOST, paths, str(new.unsatisfiable))
    if old.unsatisfiable is not None:
        return QueryEffect(Effect.GAINED, paths, str(old.unsatisfiable))
    return QueryEffect(Effect.READS, paths) if paths else UNAFFECTED
