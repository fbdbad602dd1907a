"""Queries compiled by lxml, for candidates that no index decides."""

from __future__ import annotations

from collections import OrderedDict

import attrs

from broker.matching.engine.distinct_query import DistinctQuery
from broker.matching.query.limits import NO_LIMITS
from broker.matching.query.query import Query, parse_query
from broker.matching.query.worst_case import WorstCost
from broker.matching.xpath_evaluation import CompiledXPath

#: Each takes about 4 kB.
MAX_COMPILED = 16_384


@attrs.define(eq=False)
class CachedQuery:
    #: The query `true()` is not an entry of the index.
    is_always_true = False

    distinct_query: DistinctQuery
    _compiled: CompiledXPath | None = None
    _nodes: int = 0
    _worst_cost: WorstCost = WorstCost(0.0, 0.0)

    @property
    def query(self) -> Query:
        query = self.distinct_query
        return parse_query(query.text, dict(query.namespaces), NO_LIMITS)

    @property
    def compiled(self) -> CompiledXPath:
        """The expression, compiled now, since compiling counts as time of the client."""
        if self._compiled is None:
            query = self.distinct_query
            self._compiled = CompiledXPath(
                query.compilable, query.namespaces, query.inputs, query.calls
            )
        return self._compiled

    def worst_cost(self, nodes: int) -> WorstCost:
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
    def __init__(self, limit: int = MAX_COMPILED) -> None:
        self._most = limit
        self._known: OrderedDict[DistinctQuery, CachedQuery] = OrderedDict()

    def get(self, query: DistinctQuery) -> CachedQuery:
        known = self._known.get(query)
        if known is not None:
            self._known.move_to_end(query)
            return known
        runnable = self._known[query] = CachedQuery(query)
        if len(self._known) > self._most:
            self._known.popitem(last=False)
        return runnable

    def discard(self, query: DistinctQuery) -> None:
        self._known.pop(query, None)
