"""Warnings for subscribers about queries that can never match (X10)."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from broker.dtd.reference import DtdReference
from broker.matching.query.query import Query
from broker.matching.schema.abstract_evaluation import analyse_query, check_satisfiability
from broker.matching.schema.cause import Unsatisfiable
from broker.matching.schema.known_types import KnownTypes
from broker.matching.schema.namespaced_name import is_unprefixed
from broker.matching.schema.schema_node import MAX_WORK, NO_NAMESPACE

#: Cached results, least recently used first.
MAX_CACHED = 1024
#: Types with a warning for a returning subscriber.
MAX_WARNINGS = 8
#: Schemas that are built for one returning subscriber: some take 0.1 s of the reactor's time. The
#: next subscriber is warned of further types.
MAX_NEW_SCHEMAS = 4
#: DTDs read for advice to one subscriber, some 1 ms each; the next one continues.
MAX_NEW_TYPES = 16
#: Characters of a warning.
MAX_WARNING_LENGTH = 1000
#: Schema nodes visited for one query over all types. Beyond it there is no warning.
MAX_TOTAL_WORK = 8 * MAX_WORK

#: Matches possible names in a query, to guess the intended type.
_NAME = re.compile(r"[^\W\d][\w.-]*")
#: A query on a type or version may be meant for one that does not exist yet.
_OF_TYPE = re.compile(r"\$(?:EventType|VersionNum)\b")
_HINT = "; there is"


class _Result(NamedTuple):
    references: tuple[DtdReference, ...]
    unsatisfiable: Unsatisfiable | None
    last_satisfied: DtdReference | None


class QueryAdvisor:
    """Finds queries that no known type can satisfy.

    `undescribed`: events without a DTD may match anything.
    """

    def __init__(
        self,
        types: KnownTypes,
        *,
        undescribed: bool,
        complete: Callable[[], bool] = lambda: True,
    ) -> None:
        """`complete` returns False while announced types are missing; then there is no warning."""
        self._complete = complete
        self._types = types
        self._undescribed = undescribed
        self._cache: OrderedDict[Query, _Result] = OrderedDict()
        self._last_satisfied: DtdReference | None = None
        """The type that satisfied the previous query. It is tried first."""

    def find_warnings(self, query: Query, returning: bool) -> tuple[str, ...]:
        """Return a warning if no event of any known type and version can match, and advice about
        names whose namespace the query leaves out.

        For a `returning` durable subscriber, also warn of each type whose newest version can not
        match though an older one can (M16).
        """
        if query.is_true:
            return ()
        unmet = self._find_unmet(query, returning)
        advice = self._advise_namespace(query, self._last_satisfied if not unmet else None)
        return (*unmet, *([advice] if advice else []))

    def _advise_namespace(self, query: Query, satisfied: DtdReference | None) -> str:
        """`satisfied` is a type that the query may match, if its names are in no namespace."""
        words = frozenset(_NAME.findall(query.text))
        if satisfied is not None:
            known = self._types.namespaces_of(satisfied)
            if all(is_unprefixed(known.get(word, NO_NAMESPACE)) for word in words):
                return ""
        names = self._types.namespaced_names(MAX_NEW_TYPES)
        if names is None or not self._complete():
            return ""
        return names.advise(query, words)[:MAX_WARNING_LENGTH]

    def _find_unmet(self, query: Query, returning: bool) -> tuple[str, ...]:
        if not returning and self._probably_matches(query):
            return ()
        references = self._types.references()
        known = self._cache.get(query)
        if known is None or known.references != references:
            cause = self._find_unsatisfiable(query, references)
            known = self._cache[query] = _Result(references, cause, self._last_satisfied)
            if len(self._cache) > MAX_CACHED:
                self._cache.popitem(last=False)
        _, unsatisfiable, self._last_satisfied = known
        if unsatisfiable is not None and not self._complete():
            return ()
        if unsatisfiable is not None:
            unmet = ", but one of an unknown type or version may"
            hedge = unmet if unsatisfiable.is_root_mismatch or _OF_TYPE.search(query.text) else ""
            warning = f"no event of the known types can match{hedge}: {unsatisfiable}"
            if self._undescribed:
                warning += ". Events without a DTD may match"
            return (warning[:MAX_WARNING_LENGTH],)
        if not returning:
            return ()
        return tuple(each[:MAX_WARNING_LENGTH] for each in self._warn_outgrown(query, references))

    def _probably_matches(self, query: Query) -> bool:
        return self._last_satisfied is not None and self._can_match(query, self._last_satisfied)

    def _can_match(self, query: Query, reference: DtdReference) -> bool:
        schema = self._types.get_schema(reference)
        return schema is not None and check_satisfiability(query, schema) is None

    def _find_unsatisfiable(
        self, query: Query, references: tuple[DtdReference, ...]
    ) -> Unsatisfiable | None:
        names = frozenset(_NAME.findall(query.text))
        found: list[tuple[tuple[int, int], Unsatisfiable]] = []
        work = MAX_TOTAL_WORK
        for reference in self._sort_likely_first(references, names):
            schema = self._types.get_schema(reference)
            if schema is None or work < 0:
                return None
            analysis = analyse_query(query, schema, reading=False)
            work -= analysis.work
            unsatisfiable = analysis.unsatisfiable
            if unsatisfiable is None:
                self._last_satisfied = reference
                return None
            found.append(((unsatisfiable.position, len(names & schema.names)), unsatisfiable))
        if not found:
            return None
        closest = max(closeness for closeness, _ in found)
        closest_causes = [each for closeness, each in found if closeness == closest]
        return max(
            closest_causes, key=lambda each: (_HINT in each.reason, each.reference.version_key)
        )

    def _sort_likely_first(
        self, references: tuple[DtdReference, ...], names: frozenset[str]
    ) -> list[DtdReference]:
        newest = {reference.type: reference for reference in references}
        return sorted(
            references,
            key=lambda each: (
                each.type not in names,
                not self._types.has_schema(each),
                newest[each.type] != each,
            ),
        )

    def _warn_outgrown(self, query: Query, references: tuple[DtdReference, ...]) -> Iterator[str]:
        by_type: dict[str, list[DtdReference]] = {}
        for reference in references:
            by_type.setdefault(reference.type, []).append(reference)
        names = frozenset(_NAME.findall(query.text))
        left = MAX_NEW_SCHEMAS
        warned = 0
        # A type that the query names is the likeliest one.
        likely_first = sorted(by_type, key=lambda name: name not in names)
        for *older, newest in map(by_type.__getitem__, likely_first):
            if not older or warned == MAX_WARNINGS:
                continue
            left -= not self._types.has_schema(newest)
            if left < 0:
                return
            schema = self._types.get_schema(newest)
            unsatisfiable = None if schema is None else check_satisfiability(query, schema)
            if unsatisfiable is None:
                continue
            for reference in older:
                left -= not self._types.has_schema(reference)
                if left < 0:
                    return
                if self._can_match(query, reference):
                    warned += 1
                    yield (
                        "the newest version can not match, though an older one can: "
                        f"{unsatisfiable}"
                    )
                    break
