"""Evaluation of queries that no index decides, and suspension of those that take too long."""

from __future__ import annotations

from collections.abc import Iterable

from broker.errors import QueryTooExpensive
from broker.matching.budget import Budget
from broker.matching.contract import Accepted, Verdict
from broker.matching.engine.compiled_query_cache import CachedQuery, CompiledQueryCache
from broker.matching.engine.distinct_query import DistinctQuery
from broker.matching.engine.family_time_limit import FamilyTimeLimit
from broker.matching.engine.subscription_registry import SubscriptionRegistry
from broker.matching.xpath_evaluation import ParsedEvent


class QueryEvaluator:
    def __init__(self, registry: SubscriptionRegistry, budget: Budget) -> None:
        self.suspension_count = 0
        self._registry = registry
        self._budget = budget
        self._compiled = CompiledQueryCache()
        self._suspended: list[tuple[int, QueryTooExpensive]] = []
        #: Queries that this batch suspended, each with the index of the event.
        self._suspended_at: list[tuple[int, DistinctQuery]] = []

    @property
    def evaluations(self) -> int:
        return self._budget.evaluations

    def take_suspended(self) -> list[tuple[int, QueryTooExpensive]]:
        suspended, self._suspended = self._suspended, []
        return suspended

    def forget_subscription(self, number: int, removed_query: DistinctQuery | None) -> None:
        """Drop a removed subscription, and its query if that has no other."""
        if removed_query is not None:
            self._compiled.discard(removed_query)
        if self._suspended:
            self._suspended = [
                suspension for suspension in self._suspended if suspension[0] != number
            ]

    def begin_batch(self) -> None:
        self._suspended_at.clear()

    def begin_event(self, event: ParsedEvent, free_seconds: float) -> FamilyTimeLimit:
        """Start a client's time on an event, of which `free_seconds` are not charged."""
        self._budget.time_shares.begin_event(free_seconds)
        return FamilyTimeLimit(self._budget, self._patterns_for(event))

    def evaluate(
        self,
        candidates: Iterable[DistinctQuery],
        event: ParsedEvent,
        index: int,
        document: bytes,
    ) -> list[DistinctQuery]:
        """Return the queries that match the event at `index` of the batch, within the clients'
        time."""
        patterns = self._patterns_for(event)
        get = self._compiled.get
        # Queries without a subscription that may read the event are not evaluated, so they can not
        # be suspended.
        queries = [
            get(each)
            for each in candidates
            if each.select_subscriptions(patterns) and not each.is_suspended
        ]
        if not queries:
            return []
        return self._suspend_expensive(
            index,
            patterns,
            *self._budget.evaluate_queries(
                queries,
                event,
                document,
                lambda query: query.distinct_query.select_subscriptions(patterns),
            ),
        )

    def matches_logged_event(
        self, distinct_query: DistinctQuery, event: ParsedEvent, index: int, document: bytes
    ) -> bool:
        """Return True if a query matches a logged event. No client's time is charged."""
        if distinct_query.is_suspended:
            return False
        runnable = self._compiled.get(distinct_query)
        result = self._budget.evaluate_queries([runnable], event, document, lambda _: ())
        return bool(self._suspend_expensive(index, self._patterns_for(event), *result))

    def _patterns_for(self, event: ParsedEvent) -> frozenset[int]:
        """Return the patterns of subscriptions that may read an event."""
        return self._registry.stream_patterns.view_for(event.header).patterns

    def _suspend_expensive(
        self,
        index: int,
        patterns: frozenset[int],
        matching: list[CachedQuery],
        suspended: list[tuple[CachedQuery, QueryTooExpensive]],
    ) -> list[DistinctQuery]:
        for query, error in suspended:
            self.suspension_count += 1
            split = self._registry.suspend_query(query.distinct_query, patterns)
            self._suspended.extend((number, error) for number in split.subscriptions)
            self._suspended_at.append((index, split))
        return [query.distinct_query for query in matching]

    def first_suspension(self, default: int) -> int:
        return min([index for index, _ in self._suspended_at], default=default)

    def remove_suspended(self, verdicts: list[Verdict | None]) -> None:
        for index, query in self._suspended_at:
            for later, verdict in enumerate(verdicts[index:], index):
                if isinstance(verdict, Accepted):
                    remaining = [
                        n for n in verdict.subscriptions if n not in query.pattern_by_subscription
                    ]
                    verdicts[later] = type(verdict)(verdict.header, tuple(remaining))
