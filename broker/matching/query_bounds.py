"""Bounds for the evaluation of one query on one event (checklist F13).

libxml2 can not be interrupted. So queries that may take too long are evaluated by
`evaluate_exactly`, which stops at a limit. If that fails, the query is suspended.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from math import inf
from typing import Protocol

from lxml import etree

from broker.errors import QueryTooExpensive
from broker.matching.partial.exact_evaluation import (
    NotEvaluated,
    evaluate_exactly,
    evaluation_input_of,
)
from broker.matching.partial.work_budget import WorkBudget
from broker.matching.query.limits import QueryLimits
from broker.matching.query.query import Query
from broker.matching.query.worst_case import (
    BYTES_PER_NODE,
    DocumentSize,
    WorstCaseCosts,
    WorstCost,
    worst_case_cost,
)
from broker.matching.xpath_evaluation import CompiledXPath, ParsedEvent, compile_query

#: Maximum worst-case cost, relative to the limit for the estimated cost.
_WORST_FACTOR = 4
#: Work of `evaluate_exactly` per allowed second, if all of it is quick.
_WORK_A_SECOND = 4_000_000
#: Maximum nodes of a document for `evaluate_exactly`: some 0.3 s.
MAX_TREE = 131_072


class Runnable(Protocol):
    @property
    def is_always_true(self) -> bool:
        """True for the query `true()`."""

    @property
    def query(self) -> Query:
        """The parsed query. It may be parsed again."""

    @property
    def compiled(self) -> CompiledXPath:
        """The compiled query. It may be compiled now."""

    def worst_cost(self, nodes: int) -> WorstCost:
        """See `WorstCaseCosts`."""


class RunnableQuery:
    def __init__(self, query: Query) -> None:
        self.query = query
        self.is_always_true = query.is_true
        self.compiled = compile_query(query)
        self._costs = WorstCaseCosts(query.expression)

    def worst_cost(self, nodes: int) -> WorstCost:
        return self._costs.cost_on(nodes)


class QueryBounds:
    """Bounds of all queries on an event of any size: the node stops for an evaluation.

    A query ends that takes longer than `max_run_time` seconds of the processor.
    """

    def __init__(
        self,
        limits: QueryLimits,
        clock: Callable[[], float],
        max_run_time: float,
        processor_clock: Callable[[], float] | None = None,
    ) -> None:
        """`processor_clock` returns the processor time of this thread, without pauses of the
        machine; None: `clock`."""
        self.max_worst_visits = float(limits.max_cost * _WORST_FACTOR)
        """Maximum worst-case cost for libxml2, in visited nodes."""
        self.clock = clock
        self.processor_clock = processor_clock or clock
        self.max_run_time = max_run_time
        self.evaluations = 0


class BoundedEvaluation:
    def __init__(
        self,
        bounds: QueryBounds,
        event: ParsedEvent,
        document: bytes,
        *,
        max_tree: int = MAX_TREE,
    ) -> None:
        """`max_tree` is the maximum number of nodes for `evaluate_exactly`."""
        self._max_tree = max_tree
        self._bounds = bounds
        self._event = event
        self._bytes = len(document)
        self._document = document
        # Each element, text and attribute has one of these characters, or shares it with one other
        # node.
        self._nodes = document.count(b"<") + document.count(b"=")
        self.rounded_nodes = (
            1 << (max(self._nodes, self._bytes // BYTES_PER_NODE, 1) - 1).bit_length()
        )
        """Number of nodes, rounded up to a power of two, for the reuse of worst-case costs."""

    def matches(self, query: Runnable, worst_cost: WorstCost, seconds: float = inf) -> bool:
        """Return True if a query matches. Raises `QueryTooExpensive`.

        Without libxml2 an evaluation ends after `seconds`, if these are less than the maximum.
        """
        if self._suits_libxml2(query, worst_cost):
            return self._evaluate_by_libxml2(query)
        return self._evaluate_exactly(query, worst_cost, seconds)

    def prepare_evaluation(self, query: Runnable) -> Callable[[], bool]:
        """Return a function that evaluates the query on this event at each call."""
        worst_cost = query.worst_cost(self.rounded_nodes)
        if self._suits_libxml2(query, worst_cost):
            return lambda: query.compiled.matches(self._event)
        return lambda: self._evaluate_exactly(query, worst_cost)

    def is_cost_within(self, visits: float, worst_cost: WorstCost) -> bool:
        """Return True if the worst case has at most `visits`. A shallow event allows more."""
        # The depth requires a walk, which few events need.
        return worst_cost.deep <= visits or (worst_cost.shallow <= visits and self._is_shallow)

    @cached_property
    def _is_shallow(self) -> bool:
        return self._event.is_shallow

    def _suits_libxml2(self, query: Runnable, worst_cost: WorstCost) -> bool:
        max_worst_visits = self._bounds.max_worst_visits
        if self.is_cost_within(max_worst_visits, worst_cost):
            return True
        # The worst case was for a larger document. Compute it for this one.
        parsed_query = query.query
        envelope = parsed_query.uses_envelope or not parsed_query.uses_payload
        nodes = self._event.count_nodes(envelope=envelope)
        size = DocumentSize(nodes, self._event.depth, self._bytes, self._instructions)
        return worst_case_cost(parsed_query.expression, size) <= max_worst_visits

    @cached_property
    def _instructions(self) -> int:
        return self._document.count(b"<?") + self._document.count(b"<!--")

    def _evaluate_by_libxml2(self, query: Runnable) -> bool:
        """Return True if a query matches. Raises `QueryTooExpensive` if it takes too long."""
        bounds = self._bounds
        bounds.evaluations += 1
        allowed_seconds = bounds.max_run_time
        # Read second only if it took long, which may be a pause of the machine.
        processor_started, started = bounds.processor_clock(), bounds.clock()
        try:
            matches = query.compiled.matches(self._event)
            if bounds.clock() - started <= allowed_seconds:
                return matches
            seconds = bounds.processor_clock() - processor_started
        except etree.LxmlError as error:
            raise QueryTooExpensive(f"libxml2 gave up on the query: {error}") from None
        if seconds > allowed_seconds:
            raise QueryTooExpensive(
                f"the query took {seconds * 1000:.0f} ms on one event, "
                f"at most {allowed_seconds * 1000:.0f} ms are allowed"
            )
        return matches

    def _evaluate_exactly(
        self, query: Runnable, worst_cost: WorstCost, seconds: float = inf
    ) -> bool:
        bounds = self._bounds
        try:
            if self._nodes > self._max_tree:
                raise NotEvaluated(f"an event with more than {self._max_tree} nodes is too large")
            # The account pays for the tree too, but no query ends for it.
            evaluation_input_of(self._event)
            most = bounds.max_run_time
            limit = int(most * _WORK_A_SECOND)
            work = WorkBudget(limit, bounds.processor_clock, min(most, seconds))
            return evaluate_exactly(query.query, self._event, work)
        except NotEvaluated as error:
            raise QueryTooExpensive(
                f"the query would visit about {worst_cost.deep:.3g} nodes in the worst case, more "
                f"than the limit of {bounds.max_worst_visits:.3g}, on an event with {self._nodes}; "
                f"exact evaluation failed too: {error}"
            ) from None
