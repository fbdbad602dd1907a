"""The bounds within which a query is evaluated on one event (checklist F13): nobody is trusted.

libxml2 can not be interrupted. So each query gets a worst-case bound for a document of this size
(`worst_case.py`). A query that may take too long is evaluated here instead, within bounds; one that
can not be is suspended.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Protocol

from lxml import etree

from broker.errors import QueryTooExpensive
from broker.matching.partial.exact_evaluation import ExactEvaluation, NotEvaluated
from broker.matching.query.limits import QueryLimits
from broker.matching.query.query import Query
from broker.matching.query.worst_case import (
    BYTES_PER_NODE,
    DocumentSize,
    WorstCost,
    worst_case_cost,
)
from broker.matching.xpath_evaluation import ParsedEvent

#: Bytes of a document for which the bounds hold; a larger one gets more in proportion, or one
#: large event would suspend every query that looks at all of it.
_ORDINARY_DOCUMENT = 64 * 1024
#: What a query may cost at worst, against the limit for what it costs on most documents.
_WORST_FACTOR = 4
#: Work of our own evaluation for each second that a query may run.
_WORK_A_SECOND = 1_000_000
#: Nodes of the largest document that we make a tree of: some 0.3 s.
_MAX_TREE = 131_072


class EvaluableQuery(Protocol):
    """What is evaluated of a query."""

    @property
    def query(self) -> Query:
        """The query itself; may have to be read again."""

    def matches(self, subject: ParsedEvent) -> bool:
        """Its value; raises `etree.XPathError` if libxml2 gives up."""


class Runnable(Protocol):
    """A query that can be evaluated."""

    @property
    def is_always_true(self) -> bool:
        """Whether it is true whatever the event is."""

    @property
    def compiled(self) -> EvaluableQuery:
        """What runs; may be made for that."""

    def worst_cost(self, nodes: int) -> WorstCost:
        """See `WorstCaseCosts`."""


class QueryBounds:
    """What holds for every query on an event of ordinary size.

    A query that takes longer than `max_run_time` seconds on one event is evaluated again, so that a
    pause of the machine is not held against it.
    """

    def __init__(
        self, limits: QueryLimits, clock: Callable[[], float], max_run_time: float
    ) -> None:
        self.max_worst_visits = float(limits.max_cost * _WORST_FACTOR)
        """What libxml2 gets may cost no more at worst, in nodes visited."""
        self.clock = clock
        self.max_run_time = max_run_time
        self.evaluations = 0
        """Expressions that libxml2 was given so far."""


class BoundedEvaluation:
    """Evaluates queries on one event."""

    def __init__(self, bounds: QueryBounds, subject: ParsedEvent, document: bytes) -> None:
        self._bounds = bounds
        self._event = subject
        self._bytes = len(document)
        # Each element, text and attribute has one of the two signs, or shares it with one other.
        self._nodes = document.count(b"<") + document.count(b"=")
        self.rounded_nodes = (
            1 << (max(self._nodes, self._bytes // BYTES_PER_NODE, 1) - 1).bit_length()
        )
        """Nodes that worst cases are told for: a power of two, so that few serve all documents."""
        self.scale = max(1.0, self._bytes / _ORDINARY_DOCUMENT)
        """How many times as much is allowed as on an event of ordinary size."""
        self._max_worst_visits = bounds.max_worst_visits * self.scale
        self._allowed_seconds = bounds.max_run_time * self.scale
        self._exact: ExactEvaluation | None = None

    def matches(self, query: Runnable, worst: WorstCost) -> bool:
        """Whether a query matches; raises `QueryTooExpensive`.

        What libxml2 might take too long for is evaluated by ourselves.
        """
        if self._suits_libxml2(query, worst):
            return self._evaluate_by_libxml2(query)
        return self._evaluate_exactly(query, worst)

    def prepare_evaluation(self, query: Runnable) -> Callable[[], bool]:
        """What evaluates the query on this event, once more whenever it is called."""
        worst = query.worst_cost(self.rounded_nodes)
        if self._suits_libxml2(query, worst):
            return lambda: query.compiled.matches(self._event)
        return lambda: self._evaluate_exactly(query, worst)

    def measure_event(self, *, envelope: bool) -> DocumentSize:
        """How large the event is, or what queries without paths to the envelope see of it."""
        nodes = self._event.count_nodes(envelope=envelope)
        return DocumentSize(nodes, self._event.depth, self._bytes)

    def is_cost_within(self, visits: float, worst: WorstCost) -> bool:
        """Whether so many visits are enough, be it because the event is shallow."""
        # How deep it is takes a walk, which few events need.
        return worst.deep <= visits or (worst.shallow <= visits and self._is_shallow)

    @cached_property
    def _is_shallow(self) -> bool:
        return self._event.is_shallow

    def _suits_libxml2(self, query: Runnable, worst: WorstCost) -> bool:
        if self.is_cost_within(self._max_worst_visits, worst):
            return True
        # That was for a document that is larger than this one.
        asked = query.compiled.query
        extent = self.measure_event(envelope=asked.uses_envelope or not asked.uses_payload)
        return worst_case_cost(asked.expression, extent) <= self._max_worst_visits

    def _evaluate_by_libxml2(self, query: Runnable) -> bool:
        """Whether a query matches; raises `QueryTooExpensive` if it takes too long twice."""
        self._bounds.evaluations += 1
        clock, allowed = self._bounds.clock, self._allowed_seconds
        try:
            before = clock()
            matches = query.compiled.matches(self._event)
            if clock() - before <= allowed:
                return matches
            before = clock()
            query.compiled.matches(self._event)
            taken = clock() - before
        except etree.LxmlError as error:
            raise QueryTooExpensive(f"libxml2 gave up on the query: {error}") from None
        if taken > allowed:
            raise QueryTooExpensive(
                f"the query took {taken * 1000:.0f} ms on one event, "
                f"at most {allowed * 1000:.0f} ms are allowed"
            )
        return matches

    def _evaluate_exactly(self, query: Runnable, worst: WorstCost) -> bool:
        try:
            if self._nodes > _MAX_TREE:
                raise NotEvaluated(f"an event with more than {_MAX_TREE} nodes is too large")
            if self._exact is None:
                self._exact = ExactEvaluation(
                    self._event, int(self._allowed_seconds * _WORK_A_SECOND)
                )
            return self._exact.matches(query.compiled.query)
        except NotEvaluated as error:
            raise QueryTooExpensive(
                f"the query would visit about {worst.deep:.3g} nodes at worst of an event with "
                f"{self._nodes}, at most {self._max_worst_visits:.3g} are allowed, and without libxml2: "
                f"{error}"
            ) from None
