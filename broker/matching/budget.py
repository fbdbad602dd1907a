"""The run-time budget of queries, per event and per client (checklist F13).

`query_bounds` limits one query on one event, `client_time_share` all queries of a client.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from broker.errors import QueryTooExpensive
from broker.matching.client_time_share import ClientTimeShares
from broker.matching.query.worst_case import CHEAP_VISITS, WorstCost
from broker.matching.query_bounds import BoundedEvaluation, QueryBounds, Runnable
from broker.matching.xpath_evaluation import ParsedEvent

#: Upper bound: a visit takes 10 ns, and building a node-set twice as much.
_SECONDS_A_VISIT = 3e-8
#: Overhead of one evaluation: compiling, and calling libxml2.
_SECONDS_A_CALL = 1e-4
#: A worst case that takes longer was not stored.
_STORED_SECONDS = 2e-5
#: Seconds for the worst case of the longest query. More is a pause of the machine.
_MAX_BOUND_SECONDS = 5e-3

_Runnable = TypeVar("_Runnable", bound=Runnable)


class Budget:
    """Evaluates queries, expensive ones last, and rejects those that exceed their time."""

    def __init__(self, bounds: QueryBounds, time_shares: ClientTimeShares) -> None:
        self._bounds = bounds
        self._are_bounds_stored = True
        """False from the first worst case of an event that was computed."""
        self.time_shares = time_shares

    @property
    def processor_clock(self) -> Callable[[], float]:
        return self._bounds.processor_clock

    @property
    def evaluations(self) -> int:
        return self._bounds.evaluations

    def evaluate_queries(
        self,
        queries: Sequence[_Runnable],
        event: ParsedEvent,
        document: bytes,
        subscriptions: Callable[[_Runnable], Sequence[int]],
    ) -> tuple[list[_Runnable], list[tuple[_Runnable, QueryTooExpensive]]]:
        """Return the matching queries, and those to suspend with the reason.

        `subscriptions` returns those that pay for a query, after `begin_event` of the shares;
        without any, no time is charged.
        """
        evaluation = BoundedEvaluation(self._bounds, event, document)
        matching: list[int] = []
        too_expensive: list[tuple[_Runnable, QueryTooExpensive]] = []
        cheap: list[tuple[WorstCost, int]] = []
        expensive: list[tuple[WorstCost, int]] = []
        self._are_bounds_stored = True
        for index, query in enumerate(queries):
            if query.is_always_true:
                matching.append(index)
                continue
            try:
                worst_cost = self._bound_query(query, evaluation, subscriptions(query))
            except QueryTooExpensive as error:
                too_expensive.append((query, error))
                continue
            (expensive if worst_cost.deep > CHEAP_VISITS else cheap).append((worst_cost, index))
        for worst_cost, index in [*cheap, *sorted(expensive)]:
            query = queries[index]
            try:
                if self._matches(query, worst_cost, evaluation, subscriptions(query)):
                    matching.append(index)
            except QueryTooExpensive as error:
                too_expensive.append((query, error))
        matching.sort()
        return [queries[index] for index in matching], too_expensive

    def _bound_query(
        self, query: Runnable, evaluation: BoundedEvaluation, subscriptions: Sequence[int]
    ) -> WorstCost:
        """Return the worst case. It is stored, and computed within the time of the client."""
        share = None
        if subscriptions and not self._are_bounds_stored:
            share = self.time_shares.find_bounded(subscriptions)
            if share is None:
                raise QueryTooExpensive(_TOO_MUCH_TIME)
        clock = self._bounds.clock
        started = clock()
        worst_cost = query.worst_cost(evaluation.rounded_nodes)
        seconds = min(clock() - started, _MAX_BOUND_SECONDS)
        if share is not None:
            share.bound_seconds += seconds
        elif seconds > _STORED_SECONDS:
            self._are_bounds_stored = False
        return worst_cost

    def _matches(
        self,
        query: Runnable,
        worst_cost: WorstCost,
        evaluation: BoundedEvaluation,
        subscriptions: Sequence[int],
    ) -> bool:
        if not subscriptions:
            return evaluation.matches(query, worst_cost)
        is_cheap = evaluation.is_cost_within(CHEAP_VISITS, worst_cost)
        share = self.time_shares.find_payer(subscriptions, is_cheap=is_cheap)
        if share is None:
            raise _budget_exceeded(worst_cost)
        clock, time_shares = self._bounds.clock, self.time_shares
        # Time beyond the worst case is not the query's fault, and a pause seldom occurs twice.
        seconds = _SECONDS_A_CALL + worst_cost.deep * _SECONDS_A_VISIT
        try:
            for _ in range(2):
                started = clock()
                try:
                    left = time_shares.seconds_left(share, is_cheap=is_cheap)
                    matches = evaluation.matches(query, worst_cost, left)
                finally:
                    seconds = min(seconds, clock() - started)
                if time_shares.can_afford(share, seconds, is_cheap=is_cheap):
                    return matches
        finally:
            time_shares.charge(share, seconds)
        raise _budget_exceeded(worst_cost)


_TOO_MUCH_TIME = "the queries of this account or client take too much time in total"


def _budget_exceeded(worst_cost: WorstCost) -> QueryTooExpensive:
    return QueryTooExpensive(
        f"{_TOO_MUCH_TIME}, and this is one of the most expensive: it may visit "
        f"{worst_cost.deep:.3g} nodes"
    )
