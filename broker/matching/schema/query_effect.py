"""The effect of a newer version of a type on a query (M16)."""

from __future__ import annotations

import enum

import attrs

from broker.matching.query.query import Query
from broker.matching.schema.limits import MAX_WORK
from broker.matching.schema.satisfiability import analyse_query
from broker.matching.schema.schema_difference import SchemaDifference, sort_labels


class Effect(enum.Enum):
    """The values are sent on the wire."""

    UNAFFECTED = "unaffected"
    LOST = "can-not-match-any-more"
    """Events of the old version could match, valid events of the new one can not."""
    GAINED = "can-match-now"
    """Events of the old version could never match, events of the new one can."""
    READS = "reads-what-changed"
    """The query may match both versions, but reads paths that were added, removed or changed."""


@attrs.frozen
class QueryEffect:
    effect: Effect
    paths: tuple[str, ...] = ()
    #: The paths that the query reads among those added, removed or changed.

    reason: str = ""
    #: Cause why the new version (`LOST`) or the old version (`GAINED`) can not match.


UNAFFECTED = QueryEffect(Effect.UNAFFECTED)


def find_effect(query: Query, between: SchemaDifference, work: int = MAX_WORK) -> QueryEffect:
    """Return the effect of a new version on a query.

    `work` limits the analysis for each version. Beyond it the query counts as reading all
    differences. A query that matches neither version is unaffected: its subscriber already got a
    warning.
    """
    old, new = analyse_query(query, between.old, work), analyse_query(query, between.new, work)
    if old.unsatisfiable is not None and new.unsatisfiable is not None:
        return UNAFFECTED
    removed = between.removed | between.changed.keys()
    added = between.added | between.changed.keys()
    touched = removed & old.labels | added & new.labels
    if not (old.is_complete and new.is_complete):
        touched = removed | added
    paths = tuple(sort_labels(touched))
    if new.unsatisfiable is not None:
        return QueryEffect(Effect.LOST, paths, str(new.unsatisfiable))
    if old.unsatisfiable is not None:
        return QueryEffect(Effect.GAINED, paths, str(old.unsatisfiable))
    return QueryEffect(Effect.READS, paths) if paths else UNAFFECTED
