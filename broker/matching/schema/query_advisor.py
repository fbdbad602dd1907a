"""What a subscriber is told of a query when it is taken (X10): that it can never match."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator

from broker.dtd.reference import DtdReference
from broker.matching.query.query import Query
from broker.matching.query.tree import FunctionCall
from broker.matching.schema.cause import Unsatisfiable
from broker.matching.schema.known_types import KnownTypes
from broker.matching.schema.limits import MAX_WORK
from broker.matching.schema.satisfiability import analyse_query, check_satisfiability

#: Queries whose advice is remembered; the one asked about longest ago goes first.
MAX_CACHED = 1024
#: Types that a returning subscriber is told of at most.
MAX_WARNINGS = 8
#: Characters of a warning.
MAX_WARNING_LENGTH = 1000
#: Places looked at for one query over all types; a query that takes more is not warned of.
MAX_TOTAL_WORK = 8 * MAX_WORK

#: Whatever looks like a name in a query: only to guess which type is meant.
_NAME = re.compile(r"[^\W\d][\w.-]*")
#: A query that asks for a type or version may be about one that has yet to come.
_OF_TYPE = re.compile(r"\$(?:EventType|VersionNum)\b")
_HINT = "; there is"


class QueryAdvisor:
    """Looks for queries that no known type can satisfy.

    `undescribed` says that the node takes events of types that no DTD describes: nobody knows what
    those can match.
    """

    def __init__(
        self,
        types: KnownTypes,
        *,
        undescribed: bool,
        complete: Callable[[], bool] = lambda: True,
    ) -> None:
        """Types that are announced may not be here yet: while `complete` says so, no query is
        called unmatchable."""
        self._complete = complete
        self._types = types
        self._undescribed = undescribed
        self._cache: OrderedDict[Query, tuple[tuple[DtdReference, ...], Unsatisfiable | None]] = (
            OrderedDict()
        )
        self._last_satisfied: DtdReference | None = None
        """The type that fulfilled the query before: it is asked first."""

    def find_warnings(self, query: Query, returning: bool) -> tuple[str, ...]:
        """A warning if no event of any known type and version can match.

        Who comes back to a durable subscription (`returning`) is also told of each type whose
        newest version can not match any more, though an older one could: the change may have come
        while it was away (M16).
        """
        if isinstance(query.expression, FunctionCall) and query.expression.name == "true":
            return ()
        if not returning and self._probably_matches(query):
            return ()
        references = self._types.references()
        known = self._cache.get(query)
        if known is None or known[0] != references:
            known = (references, self._find_unsatisfiable(query, references))
            self._cache[query] = known
            if len(self._cache) > MAX_CACHED:
                self._cache.popitem(last=False)
        impossible = known[1]
        if impossible is not None and not self._complete():
            return ()
        if impossible is not None:
            unmet = ", those of a type or version that this node has not met may"
            hedge = unmet if impossible.is_root_mismatch or _OF_TYPE.search(query.text) else ""
            warning = f"no event of the types known here can match{hedge}: {impossible}"
            if self._undescribed:
                warning += ". Events that no DTD describes may"
            return (warning[:MAX_WARNING_LENGTH],)
        if not returning:
            return ()
        return tuple(each[:MAX_WARNING_LENGTH] for each in self._warn_outgrown(query, references))

    def _probably_matches(self, query: Query) -> bool:
        """Whether the type that fulfilled the query before may fulfil this one, as it mostly is."""
        return self._last_satisfied is not None and self._can_match(query, self._last_satisfied)

    def _can_match(self, query: Query, reference: DtdReference) -> bool:
        """Whether an event of the type can match; False also if its schema can not be had."""
        schema = self._types.get_schema(reference)
        return schema is not None and check_satisfiability(query, schema) is None

    def _find_unsatisfiable(
        self, query: Query, references: tuple[DtdReference, ...]
    ) -> Unsatisfiable | None:
        """Why no known type can satisfy the query: the reason of the one that comes closest."""
        names = frozenset(_NAME.findall(query.text))
        found: list[tuple[tuple[int, int], Unsatisfiable]] = []
        work = MAX_TOTAL_WORK
        for reference in self._sort_likely_first(references, names):
            schema = self._types.get_schema(reference)
            if schema is None or work < 0:
                return None
            analysis = analyse_query(query, schema, reading=False)
            work -= analysis.work
            impossible = analysis.unsatisfiable
            if impossible is None:
                self._last_satisfied = reference
                return None
            found.append(((impossible.position, len(names & schema.names)), impossible))
        if not found:
            return None
        nearest = max(how_near for how_near, _ in found)
        nearest_ones = [each for how_near, each in found if how_near == nearest]
        return max(
            nearest_ones, key=lambda each: (_HINT in each.reason, each.reference.version_key)
        )

    def _sort_likely_first(
        self, references: tuple[DtdReference, ...], names: frozenset[str]
    ) -> list[DtdReference]:
        """The likely ones first: most queries can match, and one type is enough to know."""
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
        told = 0
        for *older, newest in by_type.values():
            # To make a schema takes up to 0.1 s of the reactor's time, so it is made when needed.
            if not older or told == MAX_WARNINGS:
                continue
            schema = self._types.get_schema(newest)
            impossible = None if schema is None else check_satisfiability(query, schema)
            if impossible is None:
                continue
            if any(self._can_match(query, reference) for reference in older):
                told += 1
                yield f"its newest version can not match, though an older one can: {impossible}"
