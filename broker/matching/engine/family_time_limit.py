"""Limit on the time for evaluating families of queries on one event, and its count by account."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, TypeVar

from broker.matching.budget import Budget
from broker.matching.engine.distinct_query import iterate_queries
from broker.matching.engine.query_family import QueryFamily
from broker.matching.partial.evaluator import MAX_VISITS
from broker.matching.partial.work_budget import OutOfTime, WorkBudget

#: Seconds for which nobody pays, for all families on one event. Few events need more.
FREE_FAMILY_SECONDS: Final = 0.01

_Found = TypeVar("_Found")
#: Returns the work limit of an evaluation, which may have several parts.
MakeWork = Callable[[], WorkBudget]


class FamilyTimeLimit:
    """Limits the time of partial evaluations: the node stops meanwhile.

    After `FREE_FAMILY_SECONDS` an account pays that has a query in the family, and may read the
    event.
    """

    def __init__(self, budget: Budget, patterns: frozenset[int]) -> None:
        self._budget = budget
        self._patterns = patterns
        self._free_seconds = FREE_FAMILY_SECONDS

    def evaluate_family(
        self, family: QueryFamily, evaluate: Callable[[MakeWork], _Found]
    ) -> _Found | None:
        """Return the result, or None if the time of all accounts is over."""
        if self._free_seconds > 0:
            found, seconds = self._evaluate_within(self._free_seconds, evaluate)
            self._free_seconds -= seconds
            if found is not None:
                return found
        shares = self._budget.time_shares
        payer = shares.find_payer(self._subscriptions_of(family), is_cheap=True)
        if payer is None:
            return None
        left = shares.seconds_left(payer, is_cheap=True)
        found, seconds = self._evaluate_within(left, evaluate)
        shares.charge(payer, seconds)
        return found

    def _evaluate_within(
        self, seconds: float, evaluate: Callable[[MakeWork], _Found]
    ) -> tuple[_Found | None, float]:
        """Return the result, None if the time ended it, and its seconds."""
        clock = self._budget.processor_clock
        works: list[WorkBudget] = []

        def make_work() -> WorkBudget:
            works.append(WorkBudget(MAX_VISITS, clock, seconds))
            return works[-1]

        started = clock()
        found = None
        with suppress(OutOfTime):
            found = evaluate(make_work)
        is_complete = not any(work.is_out_of_time for work in works)
        return found if is_complete else None, clock() - started

    def _subscriptions_of(self, family: QueryFamily) -> Iterator[int]:
        for query in iterate_queries(family.members):
            yield from query.select_subscriptions(self._patterns)
