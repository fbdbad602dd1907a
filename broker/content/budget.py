"""The run-time budget of queries (checklist F13): subscribers are not trusted, nor are publishers.

libxml2 can not be interrupted. So before it gets a query, what that may take at worst on a document
of this size is looked at (`worst.py`): a query that may take too long is evaluated by ourselves,
within bounds, and one that can not be is suspended. And all queries together have an allowance for
each event: those that may take long come last, and what is left when it is used up is suspended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Protocol, TypeVar

from lxml import etree

from broker.content.evaluation import Subject
from broker.content.partial.exact import ExactEvaluation, NotEvaluated
from broker.content.query.limits import QueryLimits
from broker.content.query.query import Query
from broker.content.query.worst import BYTES_A_NODE, Extent, Worst, worst_case
from broker.errors import QueryTooExpensive

#: Bytes of a document for which the budgets hold; a larger one gets more in proportion, or one
#: large event would suspend every query that looks at all of it.
_ORDINARY_DOCUMENT = 64 * 1024
#: What a query may cost at worst, against the limit for what it costs on most documents.
_WORST_FACTOR = 4
#: The allowance of all queries together, against what one of them may take.
_ALLOWANCE_FACTOR = 5
#: A query that costs no more at worst does not count as one that may take long: 2.5 ms.
CHEAP = 250_000.0
#: At most: a visit is 10 ns, and making a node-set of what is visited twice as much.
_SECONDS_A_VISIT = 3e-8
#: Work of our own evaluation for each second that a query may run.
_WORK_A_SECOND = 1_000_000
#: Nodes of the largest document that we make a tree of: some 0.3 s.
_MAX_TREE = 131_072


class Evaluable(Protocol):
    """What is evaluated of a query."""

    @property
    def always(self) -> bool:
        """Whether it is true whatever the event is."""

    @property
    def query(self) -> Query:
        """The query itself; may have to be read again."""

    def matches(self, subject: Subject) -> bool:
        """Its value; raises `etree.XPathError` if libxml2 gives up."""


class Runnable(Protocol):
    """A query that can be evaluated."""

    @property
    def compiled(self) -> Evaluable: ...
    def worst(self, nodes: int) -> Worst:
        """See `WorstCases`."""


_Runnable = TypeVar("_Runnable", bound=Runnable)


class Budget:
    """Evaluates queries and gives up on those that are too dear.

    A query that takes longer than `max_run_time` seconds on one event is evaluated again, so that a
    pause of the machine is not held against it.
    """

    def __init__(
        self, limits: QueryLimits, clock: Callable[[], float], max_run_time: float
    ) -> None:
        self.max_worst = float(limits.max_cost * _WORST_FACTOR)
        """What libxml2 gets may cost no more at worst on an ordinary document, in nodes visited."""
        self.clock = clock
        self.max_run_time = max_run_time
        self.evaluations = 0

    def evaluate(
        self, queries: Sequence[_Runnable], subject: Subject, document: bytes
    ) -> tuple[list[_Runnable], list[tuple[_Runnable, QueryTooExpensive]]]:
        """Those that match, and those to be suspended with the reason."""
        evaluation = Evaluation(self, subject, document)
        matching: list[int] = []
        broken: list[tuple[_Runnable, QueryTooExpensive]] = []
        dear: list[tuple[Worst, int]] = []
        for place, query in enumerate(queries):
            if query.compiled.always:
                matching.append(place)
                continue
            worst = query.worst(evaluation.size)
            if worst.deep > CHEAP:
                dear.append((worst, place))
                continue
            try:
                if evaluation.by_libxml2(query):
                    matching.append(place)
            except QueryTooExpensive as error:
                broken.append((query, error))
        for worst, place in sorted(dear):
            query = queries[place]
            try:
                if evaluation.within_allowance(query, worst):
                    matching.append(place)
            except QueryTooExpensive as error:
                broken.append((query, error))
        matching.sort()
        return [queries[place] for place in matching], broken


class Evaluation:
    """Evaluates queries on one event."""

    def __init__(self, budget: Budget, subject: Subject, document: bytes) -> None:
        self._budget = budget
        self._subject = subject
        self._bytes = len(document)
        # Each element, text and attribute has one of the two signs, or shares it with one other.
        self._nodes = document.count(b"<") + document.count(b"=")
        self.size = 1 << (max(self._nodes, self._bytes // BYTES_A_NODE, 1) - 1).bit_length()
        """Nodes that worst cases are told for: a power of two, so that few serve all documents."""
        scale = max(1.0, self._bytes / _ORDINARY_DOCUMENT)
        self._max_worst = budget.max_worst * scale
        self._allowed = budget.max_run_time * scale
        self._allowance = self._allowed * _ALLOWANCE_FACTOR
        self._exact: ExactEvaluation | None = None

    def within_allowance(self, query: Runnable, worst: Worst) -> bool:
        """Whether a query matches that may be dear; raises `QueryTooExpensive`.

        What libxml2 might take too long for is evaluated by ourselves.
        """
        if self._allowance <= 0 and not self._is_at_most(CHEAP, worst):
            raise QueryTooExpensive(
                "all queries together take too long on one event, and this is one of the dearest: "
                f"it may visit {worst.deep:.3g} nodes"
            )
        before = self._budget.clock()
        try:
            if self._is_for_libxml2(query, worst):
                return self.by_libxml2(query)
            return self._by_ourselves(query, worst)
        finally:
            # More than it may take at worst is not its fault.
            taken = self._budget.clock() - before
            self._allowance -= min(taken, worst.deep * _SECONDS_A_VISIT)

    def way(self, query: Runnable) -> Callable[[], bool]:
        """What evaluates the query on this event, once more whenever it is called."""
        worst = query.worst(self.size)
        if self._is_for_libxml2(query, worst):
            return lambda: query.compiled.matches(self._subject)
        return lambda: self._by_ourselves(query, worst)

    def _is_at_most(self, visits: float, worst: Worst) -> bool:
        """Whether so many visits are enough, be it because the event is shallow."""
        # How deep it is takes a walk, which few events need.
        return worst.deep <= visits or (worst.shallow <= visits and self._is_shallow)

    @cached_property
    def _is_shallow(self) -> bool:
        return self._subject.is_shallow

    def _is_for_libxml2(self, query: Runnable, worst: Worst) -> bool:
        """Whether libxml2 may evaluate the query on this event."""
        if self._is_at_most(self._max_worst, worst):
            return True
        # That was for a document that is larger than this one.
        asked = query.compiled.query
        extent = self.extent(envelope=asked.uses_envelope or not asked.uses_payload)
        return worst_case(asked.expression, extent) <= self._max_worst

    def extent(self, *, envelope: bool) -> Extent:
        """How large the event is, or what queries without paths to the envelope see of it."""
        nodes = self._subject.count_nodes(envelope=envelope)
        return Extent(nodes, self._subject.depth, self._bytes)

    def by_libxml2(self, query: Runnable) -> bool:
        """Whether a query matches; raises `QueryTooExpensive` if it takes too long twice."""
        self._budget.evaluations += 1
        clock, allowed = self._budget.clock, self._allowed
        try:
            before = clock()
            matches = query.compiled.matches(self._subject)
            if clock() - before <= allowed:
                return matches
            before = clock()
            query.compiled.matches(self._subject)
            taken = clock() - before
        except etree.LxmlError as error:
            raise QueryTooExpensive(f"libxml2 gave up on the query: {error}") from None
        if taken > allowed:
            raise QueryTooExpensive(
                f"the query took {taken * 1000:.0f} ms on one event, "
                f"at most {allowed * 1000:.0f} ms are allowed"
            )
        return matches

    def _by_ourselves(self, query: Runnable, worst: Worst) -> bool:
        """Whether a query matches; raises `QueryTooExpensive` where we do not tell."""
        try:
            if self._nodes > _MAX_TREE:
                raise NotEvaluated(f"an event with more than {_MAX_TREE} nodes is too large")
            if self._exact is None:
                self._exact = ExactEvaluation(self._subject, int(self._allowed * _WORK_A_SECOND))
            return self._exact.matches(query.compiled.query)
        except NotEvaluated as error:
            raise QueryTooExpensive(
                f"the query would visit about {worst.deep:.3g} nodes at worst of an event with "
                f"{self._nodes}, at most {self._max_worst:.3g} are allowed, and without libxml2: "
                f"{error}"
            ) from None
