"""The run-time budget of a query (checklist F13): subscribers are not trusted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from lxml import etree

from broker.content.evaluation import Subject
from broker.content.limits import LIBXML2_MAX_DEPTH
from broker.content.query.cost import MODEL_NODES, estimate
from broker.content.query.limits import QueryLimits
from broker.content.query.tree import Expression
from broker.errors import QueryTooExpensive

#: Documents up to this size can not have more elements than the cost model's document.
_SMALL_DOCUMENT = 4 * MODEL_NODES
#: Bytes of a document for which the run-time budget holds; a larger one gets more in proportion, or
#: one large event would suspend every query that looks at all of it.
_ORDINARY_DOCUMENT = 64 * 1024
#: What a query may cost on a large document, against what it may on the model's.
_LARGE_FACTOR = 10


class Evaluable(Protocol):
    """What is evaluated of a query."""

    @property
    def always(self) -> bool:
        """Whether it is true whatever the event is."""

    @property
    def expression(self) -> Expression:
        """What it was read as."""

    @property
    def climbs(self) -> bool:
        """Whether its cost may depend on how deep the document is."""

    def matches(self, subject: Subject) -> bool:
        """Its value; raises `etree.XPathError` if libxml2 gives up."""


class Runnable(Protocol):
    """A query that can be evaluated."""

    @property
    def compiled(self) -> Evaluable: ...
    @property
    def estimates(self) -> dict[int, float]:
        """Estimated costs by the size of a document: kept for the budget."""


_Runnable = TypeVar("_Runnable", bound=Runnable)


class Budget:
    """Evaluates queries and gives up on those that are too dear.

    A query that takes longer than `max_run_time` seconds on one event is evaluated again, so that a
    pause of the machine is not held against it. libxml2 can not be interrupted: so a query whose
    *estimated* cost on a large or deep document is out of all proportion is not evaluated on it at
    all.
    """

    def __init__(
        self, limits: QueryLimits, clock: Callable[[], float], max_run_time: float
    ) -> None:
        self._max_cost = limits.max_cost * _LARGE_FACTOR
        self._clock = clock
        self._max_run_time = max_run_time
        self.evaluations = 0

    def evaluate(
        self, queries: Sequence[_Runnable], subject: Subject, document: bytes
    ) -> tuple[list[_Runnable], list[tuple[_Runnable, QueryTooExpensive]]]:
        """Those that match, and those to be suspended with the reason."""
        matching: list[_Runnable] = []
        broken: list[tuple[_Runnable, QueryTooExpensive]] = []
        nodes = document.count(b"<") if len(document) > _SMALL_DOCUMENT else 0
        clock, allowed = self._clock, self._max_run_time
        if len(document) > _ORDINARY_DOCUMENT:
            allowed *= len(document) / _ORDINARY_DOCUMENT
        before = clock()
        for query in queries:
            if query.compiled.always:
                matching.append(query)
                continue
            try:
                if nodes > MODEL_NODES or query.compiled.climbs:
                    self._check_estimate(query, subject, nodes or document.count(b"<"))
                    before = clock()
                self.evaluations += 1
                matches = query.compiled.matches(subject)
                after = clock()
                if after - before > allowed:
                    after = self._again(query, subject, after, allowed)
                before = after
            except QueryTooExpensive as error:
                broken.append((query, error))
                before = clock()
            except etree.LxmlError as error:
                broken.append((query, QueryTooExpensive(f"libxml2 gave up on the query: {error}")))
                before = clock()
            else:
                if matches:
                    matching.append(query)
        return matching, broken

    def _again(self, query: Runnable, subject: Subject, before: float, allowed: float) -> float:
        query.compiled.matches(subject)
        after = self._clock()
        if after - before > allowed:
            raise QueryTooExpensive(
                f"the query took {(after - before) * 1000:.0f} ms on one event, "
                f"at most {allowed * 1000:.0f} ms are allowed"
            )
        return after

    def _check_estimate(self, query: Runnable, subject: Subject, nodes: int) -> None:
        # Rounded up to a power of two, so that few estimates serve all documents.
        size = 1 << (nodes - 1).bit_length()
        cost = query.estimates.get(size)
        if cost is None:
            deepest = min(size, LIBXML2_MAX_DEPTH)
            cost = estimate(query.compiled.expression, size, deepest).cost
            query.estimates[size] = cost
        if cost > self._max_cost and query.compiled.climbs:
            cost = estimate(query.compiled.expression, nodes, subject.depth).cost
        if cost > self._max_cost:
            raise QueryTooExpensive(
                f"the query would visit about {cost:.3g} nodes of an event with {nodes} elements, "
                f"at most {self._max_cost} are allowed"
            )
