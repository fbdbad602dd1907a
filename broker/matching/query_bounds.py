"""Bounds for the evaluation of one query on one event (checklist F13).

libxml2 can not be interrupted. So queries that may take too long are evaluated by
`ExactEvaluation`, which stops at a limit. If that fails, the query is suspended.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Final, Protocol

from lxml import etree

from broker.errors import QueryTooExpensive
from broker.matching.partial.exact_evaluation import ExactEvaluation, NotEvaluated
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

#: Bytes of a document of ordinary size. Larger ones get proportionally more time, since otherwise
#: one large event would suspend many queries.
_ORDINARY_DOCUMENT = 64 * 1024
#: Maximum weight of a large event, in events of ordinary size: the node stops for a query.
MAX_SCALE: Final = 4.0
#: Maximum worst-case cost, relative to the limit for the estimated cost.
_WORST_FACTOR = 4
#: Work of `ExactEvaluation` per allowed second.
_WORK_A_SECOND = 1_000_000
#: Maximum nodes of a document for `ExactEvaluation`: some 0.3 s.
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
    """Bounds of all queries on an event of ordinary size.

    A query that takes longer than `max_run_time` seconds is evaluated again, to exclude a pause of
    the machine.
    """

    def __init__(
        self, limits: QueryLimits, clock: Callable[[], float], max_run_time: float
    ) -> None:
        self.max_worst_visits = float(limits.max_cost * _WORST_FACTOR)
        """Maximum worst-case cost for libxml2, in visited nodes."""
        self.clock = clock
        self.max_run_time = max_run_time
        self.evaluations = 0


class BoundedEvaluation:
    def __init__(
        self,
        bounds: QueryBounds,
        event: ParsedEvent,
        document: bytes,
        *,
        max_scale: float = MAX_SCALE,
        max_tree: int = MAX_TREE,
    ) -> None:
        """`max_tree` is the maximum number of nodes for `ExactEvaluation`."""
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
        self.scale = min(max(1.0, self._bytes / _ORDINARY_DOCUMENT), max_scale)
        """Factor of all limits, 1 for an event of ordinary size."""
        self._max_worst_visits = bounds.max_worst_visits * self.scale
        self._allowed_seconds = bounds.max_run_time * self.scale
        self._exact: ExactEvaluation | None = None

    def matches(self, query: Runnable, worst_cost: WorstCost) -> bool:
        """Return True if a query matches. Raises `QueryTooExpensive`."""
        if self._suits_libxml2(query, worst_cost):
            return self._evaluate_by_libxml2(query)
        return self._evaluate_exactly(query, worst_cost)

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
        if self.is_cost_within(self._max_worst_visits, worst_cost):
            return True
        # The worst case was for a larger document. Compute it for this one.
        parsed_query = query.query
        envelope = parsed_query.uses_envelope or not parsed_query.uses_payload
        nodes = self._event.count_nodes(envelope=envelope)
        size = DocumentSize(nodes, self._event.depth, self._bytes, self._instructions)
        return worst_case_cost(parsed_query.expression, size) <= self._max_worst_visits

    @cached_property
    def _instructions(self) -> int:
        return self._document.count(b"<?") + self._document.count(b"<!--")

    def _evaluate_by_libxml2(self, query: Runnable) -> bool:
        """Return True if a query matches. Raises `QueryTooExpensive` if it takes too long twice."""
        self._bounds.evaluations += 1
        clock, allowed_seconds = self._bounds.clock, self._allowed_seconds
        try:
            started = clock()
            matches = query.compiled.matches(self._event)
            if clock() - started <= allowed_seconds:
                return matches
            started = clock()
            query.compiled.matches(self._event)
            seconds = clock() - started
        except etree.LxmlError as error:
            raise QueryTooExpensive(f"libxml2 gave up on the query: {error}") from None
        if seconds > allowed_seconds:
            raise QueryTooExpensive(
                f"the query took {seconds * 1000:.0f} ms on one event, "
                f"at most {allowed_seconds * 1000:.0f} ms are allowed"
            )
        return matches

    def _evaluate_exactly(self, query: Runnable, worst_cost: WorstCost) -> bool:
        try:
            if self._nodes > self._max_tree:
                raise NotEvaluated(f"an event with more than {self._max_tree} nodes is too large")
            if self._exact is None:
                self._exact = ExactEvaluation(
                    self._event, int(self._allowed_seconds * _WORK_A_SECOND)
                )
            return self._exact.matches(query.query)
        except NotEvaluated as error:
            raise QueryTooExpensive(
                f"the query would visit about {worst_cost.deep:.3g} nodes in the worst case, more "
                f"than the limit of {self._max_worst_visits:.3g} for an event with {self._nodes}; "
                f"exact evaluation failed too: {error}"
            ) from None
