"""Differences between two versions of a type (M16, N9): label paths added, removed or changed."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping

import attrs

from broker.dtd.interfaces import IDtd
from broker.matching.query.query import Query
from broker.matching.schema.abstract_evaluation import analyse_query
from broker.matching.schema.cause import format_list
from broker.matching.schema.schema import LabelInfo, Schema
from broker.matching.schema.schema_node import MAX_WORK


@attrs.frozen
class SchemaDifference:
    old: Schema
    new: Schema
    added: frozenset[str]
    #: Labels that only the new version has.

    removed: frozenset[str]
    #: Labels that only the old version has.

    changed: Mapping[str, str]
    #: Attributes of both with other listed values or another default: the change in words.


def compare_versions(old: IDtd, new: IDtd) -> SchemaDifference:
    """Compare two versions of a type. One that is too large for analysis has no differences."""
    schemas = Schema(old), Schema(new)
    if schemas[0].shared != schemas[1].shared:
        # Labels are comparable only if both schemas share nodes, or neither does.
        schemas = Schema(old, shared=True), Schema(new, shared=True)
    one, other = schemas
    if not (one.scopes and other.scopes):
        return SchemaDifference(one, other, frozenset(), frozenset(), {})
    before, after = one.labels(), other.labels()
    return SchemaDifference(
        one,
        other,
        frozenset(after.keys() - before.keys()),
        frozenset(before.keys() - after.keys()),
        {
            label: _describe_change(before[label], after[label])
            for label in before.keys() & after.keys()
            if before[label] != after[label]
        },
    )


def sort_labels(labels: Iterable[str]) -> list[str]:
    """Sort labels for display: an element before its contents, short paths first."""
    return sorted(labels, key=lambda label: (label.count("/"), label))


def _describe_change(before: LabelInfo, after: LabelInfo) -> str:
    parts = []
    if before.values != after.values:
        if after.values is None:
            parts.append("may be any text")
        elif before.values is None:
            parts.append(f"is only {format_list(after.values)}")
        else:
            parts += _format_changes("added", after.values - before.values)
            parts += _format_changes("removed", before.values - after.values)
    if before.default != after.default:
        parts.append(f"default {_default(before)} became {_default(after)}")
    return ", ".join(parts)


def _format_changes(word: str, values: Collection[str]) -> list[str]:
    return [f"{format_list(values, last='and')} {word}"] if values else []


def _default(label: LabelInfo) -> str:
    return "none" if label.default is None else repr(label.default)


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

    Beyond `work` for a version the query counts as reading all differences. A query that matches
    neither version is unaffected.
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
