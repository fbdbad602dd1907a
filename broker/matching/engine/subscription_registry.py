"""Who subscribed to what: each distinct query once, in families that share a template."""

from __future__ import annotations

from collections.abc import Iterator

from broker.errors import UnknownSubscription
from broker.event.stream import StreamPattern
from broker.matching.engine.distinct_query import (
    DistinctQuery,
    attach_query,
    detach_query,
    find_query,
)
from broker.matching.engine.query_family import QueryFamily
from broker.matching.engine.stream_patterns import StreamPatterns
from broker.matching.engine.structure_index import StructureIndex
from broker.matching.index.shared_index import IndexPool
from broker.matching.partial.template import Template, TemplateInstance, extract_templates
from broker.matching.query.query import Query
from broker.matching.query.tree import FunctionCall


class SubscriptionRegistry:
    """Subscriptions by number, and the families that their queries make.

    Adding and removing cost what the change costs: shapes hear of new families when a document of
    theirs comes (`younger_than`), and of `deaths` likewise.
    """

    def __init__(self) -> None:
        self.stream_patterns = StreamPatterns()
        self.structure_index = StructureIndex()
        self.distinct_queries = 0
        self.dead_families = 0
        self._last_number = 0
        self.newest_family = 0
        """The sequence number of the newest family, dead ones included."""
        self._by_number: dict[int, DistinctQuery | None] = {}
        self._families: dict[object, QueryFamily] = {}
        self._pool = IndexPool()

    def __len__(self) -> int:
        return len(self._by_number)

    @property
    def family_count(self) -> int:
        """How many templates there are."""
        return len(self._families)

    def add_subscription(self, pattern: StreamPattern, query: Query) -> int:
        """A new subscription's number."""
        self._last_number += 1
        number = self._last_number
        held = self.stream_patterns.acquire_pattern(pattern)
        if is_true(query):
            self._by_number[number] = None
            self.stream_patterns.add_unfiltered(number, held)
            return number
        entry = self._get_query(query)
        entry.add_subscription(number, held)
        self._by_number[number] = entry
        return number

    def remove_subscription(self, number: int) -> DistinctQuery | None:
        """Forget a subscription; its query if nobody else has it.

        Raises `UnknownSubscription`.
        """
        entry = self.query_of(number)
        del self._by_number[number]
        if entry is None:
            held = self.stream_patterns.remove_unfiltered(number)
            assert held is not None
            self.stream_patterns.release_pattern(held)
            return None
        self.stream_patterns.release_pattern(entry.remove_subscription(number))
        if entry.pattern_by_subscription:
            return None
        if not entry.is_suspended:
            self._remove_query(entry)
        return entry

    def query_of(self, number: int) -> DistinctQuery | None:
        """The query of a subscription, None for `true()`; raises `UnknownSubscription`."""
        try:
            return self._by_number[number]
        except KeyError:
            raise UnknownSubscription(f"there is no subscription {number}") from None

    def pattern_of(self, number: int) -> StreamPattern:
        """The streams of a subscription; raises `UnknownSubscription`."""
        entry = self.query_of(number)
        if entry is None:
            held = self.stream_patterns.unfiltered_pattern(number)
            assert held is not None
        else:
            held = entry.pattern_of(number)
        return self.stream_patterns.get_pattern(held)

    def suspend_query(self, entry: DistinctQuery) -> tuple[int, ...]:
        """Match a query no more; the numbers of its subscriptions, which stay known."""
        if not entry.is_suspended:
            entry.is_suspended = True
            self._remove_query(entry)
        return entry.subscriptions

    def find_family(self, template: Template) -> QueryFamily | None:
        """The family that shares the template, None if nobody has a query of it."""
        return self._families.get(template.key)

    def families_after(self, sequence: int) -> Iterator[QueryFamily]:
        """The families that came after the one of this sequence number, newest first."""
        for family in reversed(self._families.values()):
            if family.sequence <= sequence:
                return
            yield family

    def _get_query(self, query: Query) -> DistinctQuery:
        parts = extract_templates(query)
        families = tuple([self._get_family(part) for part in parts])
        members = tuple([f.add_member(p.literals) for f, p in zip(families, parts, strict=True)])
        known = find_query(members)
        if known is not None:
            return known
        entry = DistinctQuery(query, families, members)
        for member in dict.fromkeys(members):
            attach_query(member, entry)
        self.distinct_queries += 1
        return entry

    def _get_family(self, part: TemplateInstance) -> QueryFamily:
        key = part.template.key
        family = self._families.get(key)
        if family is None:
            self.newest_family += 1
            family = self._families[key] = QueryFamily(
                part.template, self.newest_family, self._pool
            )
            self.structure_index.add_family(family)
        return family

    def _remove_query(self, entry: DistinctQuery) -> None:
        self.distinct_queries -= 1
        for member, family in dict(zip(entry.members, entry.families, strict=True)).items():
            if detach_query(member, entry):
                family.remove_member(member)
                if not family.members:
                    family.is_dead = True
                    self.dead_families += 1
                    del self._families[family.template.key]
                    self.structure_index.remove_family(family)


def is_true(query: Query) -> bool:
    """Whether the query is `true()`."""
    return isinstance(query.expression, FunctionCall) and query.expression.name == "true"
