"""Subscriptions of the reference engine, with each distinct query once."""

from __future__ import annotations

import attrs

from broker.errors import UnknownSubscription
from broker.event.stream import StreamPattern
from broker.matching.query.query import Query
from broker.matching.query.worst_case import WorstCaseCosts, WorstCost
from broker.matching.xpath_evaluation import CompiledQuery

#: Streams with stored queries. A busy node has fewer; an attacker's stream names replace each
#: other.
MAX_STREAMS = 1024


@attrs.define(eq=False)
class QueryGroup:
    """A distinct query, and the patterns of its subscriptions by number, ascending."""

    compiled: CompiledQuery
    patterns: dict[int, StreamPattern] = attrs.field(factory=dict)
    suspended: bool = False
    worst_cases: WorstCaseCosts = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.worst_cases = WorstCaseCosts(self.compiled.query.expression)


@attrs.frozen(slots=True, eq=False)
class StreamQuery:
    """A group, and its subscriptions to one stream."""

    group: QueryGroup
    numbers: tuple[int, ...]

    @property
    def is_always_true(self) -> bool:
        return self.group.compiled.is_always_true

    @property
    def compiled(self) -> CompiledQuery:
        return self.group.compiled

    def worst_cost(self, nodes: int) -> WorstCost:
        """See `Runnable`."""
        return self.group.worst_cases.cost_on(nodes)


class SubscriptionTable:
    """Subscriptions by number, and queries by stream."""

    def __init__(self) -> None:
        self._last_number = 0
        self._groups: dict[Query, QueryGroup] = {}
        self._by_number: dict[int, QueryGroup] = {}
        self._streams: dict[str, tuple[StreamQuery, ...]] = {}

    def __len__(self) -> int:
        return len(self._by_number)

    @property
    def distinct_queries(self) -> int:
        """The number of distinct queries that are evaluated."""
        return len(self._groups)

    def add_subscription(self, pattern: StreamPattern, query: Query) -> int:
        """Add a subscription; return its number."""
        group = self._groups.get(query)
        if group is None:
            group = self._groups[query] = QueryGroup(CompiledQuery(query))
        self._last_number += 1
        group.patterns[self._last_number] = pattern
        self._by_number[self._last_number] = group
        self._drop_streams(pattern)
        return self._last_number

    def remove_subscription(self, number: int) -> None:
        """Remove a subscription. Raises `UnknownSubscription`."""
        group = self.group_of(number)
        del self._by_number[number]
        self._drop_streams(group.patterns.pop(number))
        if not group.patterns and self._groups.get(group.compiled.query) is group:
            del self._groups[group.compiled.query]

    def group_of(self, number: int) -> QueryGroup:
        """Return the group of a subscription. Raises `UnknownSubscription`."""
        group = self._by_number.get(number)
        if group is None:
            raise UnknownSubscription(f"there is no subscription {number}")
        return group

    def queries_on(self, stream: str) -> tuple[StreamQuery, ...]:
        """Return the queries to evaluate for an event of the stream."""
        queries = self._streams.get(stream)
        if queries is None:
            if len(self._streams) >= MAX_STREAMS:
                del self._streams[next(iter(self._streams))]
            queries = self._streams[stream] = tuple(self._find_queries(stream))
        return queries

    def suspend_group(self, group: QueryGroup) -> tuple[int, ...]:
        """Stop evaluating a group; return its subscriptions."""
        group.suspended = True
        if self._groups.get(group.compiled.query) is group:
            del self._groups[group.compiled.query]
        self._streams.clear()
        return tuple(group.patterns)

    def _find_queries(self, stream: str) -> list[StreamQuery]:
        queries = []
        for group in self._groups.values():
            numbers = tuple(n for n, p in group.patterns.items() if p.matches(stream))
            if numbers:
                queries.append(StreamQuery(group, numbers))
        return queries

    def _drop_streams(self, pattern: StreamPattern) -> None:
        for stream in [stream for stream in self._streams if pattern.matches(stream)]:
            del self._streams[stream]
