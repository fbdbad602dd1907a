"""Queries compiled by lxml, for what the index does not decide; the latest are kept."""

from __future__ import annotations

from collections import OrderedDict

import attrs

from broker.matching.engine.distinct_query import DistinctQuery
from broker.matching.query.limits import QueryLimits
from broker.matching.query.query import Query, parse_query
from broker.matching.query.worst_case import WorstCost
from broker.matching.xpath_evaluation import CompiledXPath

#: About 4 kB each.
MAX_COMPILED = 16_384
#: It was accepted under the node's limits, which may have been wider than the usual ones.
_NO_LIMITS = QueryLimits(
    max_length=1 << 30,
    max_nesting=1 << 10,
    max_steps=1 << 30,
    max_operators=1 << 30,
    max_cost=1 << 62,
)


class CompiledDistinctQuery(CompiledXPath):
    """A query's expression ready to run."""

    __slots__ = ("_distinct_query",)

    def __init__(self, entry: DistinctQuery) -> None:
        super().__init__(entry.compilable, entry.namespaces, entry.inputs, entry.calls)
        self._distinct_query = entry

    @property
    def query(self) -> Query:
        """The query, read again: that is seldom wanted, and there may be very many."""
        return parse_query(
            self._distinct_query.text, dict(self._distinct_query.namespaces), _NO_LIMITS
        )


@attrs.define(eq=False)
class RunnableQuery:
    """A query to be run on documents."""

    #: Who wants everything is no entry.
    is_always_true = False

    distinct_query: DistinctQuery
    _compiled: CompiledDistinctQuery | None = None
    _nodes: int = 0
    _worst_cost: WorstCost = WorstCost(0.0, 0.0)

    @property
    def compiled(self) -> CompiledDistinctQuery:
        """What runs. It is compiled when it is about to, for that takes its client's time too."""
        if self._compiled is None:
            self._compiled = CompiledDistinctQuery(self.distinct_query)
        return self._compiled

    def worst_cost(self, nodes: int) -> WorstCost:
        """See `Runnable`. Most events are about as large as the last one."""
        if nodes != self._nodes:
            self._nodes, self._worst_cost = nodes, self._compute_worst_cost(nodes)
        return self._worst_cost

    def _compute_worst_cost(self, nodes: int) -> WorstCost:
        deep = shallow = 0.0
        for family, member in zip(
            self.distinct_query.families, self.distinct_query.members, strict=True
        ):
            texts = [len(each) for each in member.literals if isinstance(each, bytes)]
            part = family.worst_case_costs().cost_on(nodes, max(texts, default=0))
            deep, shallow = deep + part.deep, shallow + part.shallow
        return WorstCost(deep, shallow)


class CompiledQueryCache:
    """Compiles queries when they are wanted, and forgets those wanted longest ago."""

    def __init__(self, most: int = MAX_COMPILED) -> None:
        self._most = most
        self._known: OrderedDict[DistinctQuery, RunnableQuery] = OrderedDict()

    def get(self, entry: DistinctQuery) -> RunnableQuery:
        """The query, compiled or to be."""
        known = self._known.get(entry)
        if known is not None:
            self._known.move_to_end(entry)
            return known
        made = self._known[entry] = RunnableQuery(entry)
        if len(self._known) > self._most:
            self._known.popitem(last=False)
        return made

    def discard(self, entry: DistinctQuery) -> None:
        """Nobody has the query any more."""
        self._known.pop(entry, None)
