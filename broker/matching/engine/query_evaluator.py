"""Queries that no index decides: evaluated one by one, and suspended when that takes too long."""

from __future__ import annotations

from collections.abc import Iterable

from broker.errors import QueryTooExpensive
from broker.matching.budget import Budget
from broker.matching.client_time_share import FREE_SECONDS
from broker.matching.contract import Accepted, Verdict
from broker.matching.engine.compiled_query_cache import CompiledQueryCache, RunnableQuery
from broker.matching.engine.distinct_query import DistinctQuery
from broker.matching.engine.subscription_registry import SubscriptionRegistry
from broker.matching.xpath_evaluation import ParsedEvent


class QueryEvaluator:
    """Evaluates queries on the events of a batch, within a budget."""

    def __init__(self, registry: SubscriptionRegistry, budget: Budget) -> None:
        self.suspension_count = 0
        """Queries suspended so far."""
        self._registry = registry
        self._budget = budget
        self._compiled = CompiledQueryCache()
        self._suspended: list[tuple[int, QueryTooExpensive]] = []
        #: Queries that this batch suspended, each with the place of the event that did.
        self._suspended_at: list[tuple[int, DistinctQuery]] = []

    @property
    def evaluations(self) -> int:
        """Expressions that were run."""
        return self._budget.evaluations

    def take_suspended(self) -> list[tuple[int, QueryTooExpensive]]:
        """Subscriptions suspended since the last call, with the reasons."""
        told, self._suspended = self._suspended, []
        return told

    def forget_subscription(self, number: int, gone: DistinctQuery | None) -> None:
        """A subscription was given up, and with it maybe a query."""
        if gone is not None:
            self._compiled.discard(gone)
        if self._suspended:
            self._suspended = [entry for entry in self._suspended if entry[0] != number]

    def begin_batch(self) -> None:
        """Another batch comes."""
        self._suspended_at.clear()

    def evaluate(
        self,
        candidates: Iterable[DistinctQuery],
        subject: ParsedEvent,
        place: int,
        document: bytes,
        free: float,
    ) -> list[DistinctQuery]:
        """Those that match the event at a place of the batch, in their clients' time: see
        `Budget` for what is `free`."""
        patterns = self._registry.stream_patterns.get_view(subject.header.stream).patterns
        get = self._compiled.get
        # What is of no concern to anybody must cost nothing, and is not to be judged.
        queries = [
            get(each)
            for each in candidates
            if each.select_subscriptions(patterns) and not each.is_suspended
        ]
        if not queries:
            return []
        return self._suspend_expensive(
            place,
            *self._budget.evaluate_queries(
                queries,
                subject,
                document,
                lambda query: query.distinct_query.select_subscriptions(patterns),
                free,
            ),
        )

    def matches_logged_event(
        self, entry: DistinctQuery, subject: ParsedEvent, place: int, document: bytes
    ) -> bool:
        """Whether a query matches an event of a log, which comes when there is time for it."""
        if entry.is_suspended:
            return False
        query = self._compiled.get(entry)
        found = self._budget.evaluate_queries(
            [query], subject, document, lambda _: (), FREE_SECONDS
        )
        return bool(self._suspend_expensive(place, *found))

    def _suspend_expensive(
        self,
        place: int,
        matching: list[RunnableQuery],
        broken: list[tuple[RunnableQuery, QueryTooExpensive]],
    ) -> list[DistinctQuery]:
        for query, error in broken:
            self.suspension_count += 1
            numbers = self._registry.suspend_query(query.distinct_query)
            self._suspended.extend((number, error) for number in numbers)
            self._suspended_at.append((place, query.distinct_query))
        return [query.distinct_query for query in matching]

    def first_suspension(self, default: int) -> int:
        """The first place at which a query was suspended."""
        return min([place for place, _ in self._suspended_at], default=default)

    def remove_suspended(self, verdicts: list[Verdict | None]) -> None:
        """From the event on that suspended it a query matches nothing, however that was found."""
        for place, entry in self._suspended_at:
            for later, verdict in enumerate(verdicts[place:], place):
                if isinstance(verdict, Accepted):
                    kept = [
                        n for n in verdict.subscriptions if n not in entry.pattern_by_subscription
                    ]
                    verdicts[later] = type(verdict)(verdict.header, tuple(kept))
