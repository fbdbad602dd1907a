"""The run-time budget of queries (checklist F13): for each on every event, and for each client.

What one query may take on an event is bounded (`bounds.py`), and so is what all queries of a client
may take in the long run (`accounts.py`). Those that may take long come last on each event, and when
their client has no time left they are suspended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from broker.errors import QueryTooExpensive
from broker.matching.client_time_share import ClientTimeShares
from broker.matching.query.worst_case import WorstCost
from broker.matching.query_bounds import BoundedEvaluation, QueryBounds, Runnable
from broker.matching.xpath_evaluation import ParsedEvent

#: A query that costs no more at worst does not count as one that may take long: 2.5 ms.
CHEAP_VISITS = 250_000.0
#: At most: a visit is 10 ns, and making a node-set of what is visited twice as much.
_SECONDS_A_VISIT = 3e-8
#: What an evaluation takes besides: compiling, and calling libxml2.
_SECONDS_A_CALL = 1e-4
#: An event may be so much larger than an ordinary one, and more counts as more.
_MAX_WEIGHT = 4.0

_Runnable = TypeVar("_Runnable", bound=Runnable)


class Budget:
    """Evaluates queries and gives up on those that are too dear."""

    def __init__(self, bounds: QueryBounds, accounts: ClientTimeShares) -> None:
        self._bounds = bounds
        self._time_shares = accounts

    @property
    def evaluations(self) -> int:
        """Expressions that libxml2 was given so far."""
        return self._bounds.evaluations

    def evaluate_queries(
        self,
        queries: Sequence[_Runnable],
        subject: ParsedEvent,
        document: bytes,
        subscriptions: Callable[[_Runnable], Sequence[int]],
        free: float,
    ) -> tuple[list[_Runnable], list[tuple[_Runnable, QueryTooExpensive]]]:
        """Those that match, and those to be suspended with the reason.

        `subscriptions` tells for whom a query is evaluated: for nobody whose time counts, if there
        are none. `free` seconds are not counted, on an event of ordinary size (see `accounts.py`).
        """
        evaluation = BoundedEvaluation(self._bounds, subject, document)
        scale = evaluation.scale
        self._time_shares.begin_event(free * scale, min(scale, _MAX_WEIGHT))
        matching: list[int] = []
        broken: list[tuple[_Runnable, QueryTooExpensive]] = []
        cheap: list[tuple[WorstCost, int]] = []
        dear: list[tuple[WorstCost, int]] = []
        for place, query in enumerate(queries):
            if query.is_always_true:
                matching.append(place)
                continue
            worst = query.worst_cost(evaluation.rounded_nodes)
            (dear if worst.deep > CHEAP_VISITS else cheap).append((worst, place))
        for worst, place in [*cheap, *sorted(dear)]:
            query = queries[place]
            try:
                if self._matches(query, worst, evaluation, subscriptions(query)):
                    matching.append(place)
            except QueryTooExpensive as error:
                broken.append((query, error))
        matching.sort()
        return [queries[place] for place in matching], broken

    def _matches(
        self,
        query: Runnable,
        worst: WorstCost,
        evaluation: BoundedEvaluation,
        numbers: Sequence[int],
    ) -> bool:
        if not numbers:
            return evaluation.matches(query, worst)
        is_cheap = evaluation.is_cost_within(CHEAP_VISITS, worst)
        account = self._time_shares.find_payer(numbers, is_cheap=is_cheap)
        if account is None:
            raise _budget_exceeded(worst)
        clock, accounts = self._bounds.clock, self._time_shares
        # More than it may take at worst is not its fault, and a pause does not come twice.
        taken = _SECONDS_A_CALL + worst.deep * _SECONDS_A_VISIT
        try:
            for _ in range(2):
                before = clock()
                try:
                    matches = evaluation.matches(query, worst)
                finally:
                    taken = min(taken, clock() - before)
                if accounts.can_afford(account, taken, is_cheap=is_cheap):
                    return matches
        finally:
            accounts.charge(account, taken)
        raise _budget_exceeded(worst)


def _budget_exceeded(worst: WorstCost) -> QueryTooExpensive:
    return QueryTooExpensive(
        "the queries of this client take too much time together, and this is one of the "
        f"dearest: it may visit {worst.deep:.3g} nodes"
    )
