"""Queries compiled by lxml, for what the index does not decide; the latest are kept."""

from __future__ import annotations

from collections import OrderedDict

import attrs

from broker.matching.evaluation import CompiledXPath
from broker.matching.query.limits import QueryLimits
from broker.matching.query.query import Query, parse_query
from broker.matching.query.worst_case import WorstCost
from broker.matching.switching.entry import Entry

#: About 4 kB each.
MAX_COMPILED = 16_384
#: It was accepted under the node's limits, which may have been wider than the usual ones.
_ANY = QueryLimits(
    max_length=1 << 30,
    max_nesting=1 << 10,
    max_steps=1 << 30,
    max_operators=1 << 30,
    max_cost=1 << 62,
)


class CompiledEntry(CompiledXPath):
    """A query's expression ready to run."""

    __slots__ = ("_entry",)

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry.compilable, entry.namespaces, entry.reading, entry.calls)
        self._entry = entry

    @property
    def query(self) -> Query:
        """The query, read again: that is seldom wanted, and there may be very many."""
        return parse_query(self._entry.text, dict(self._entry.namespaces), _ANY)


@attrs.define(eq=False)
class Compiled:
    """A query to be run on documents."""

    #: Who wants everything is no entry.
    always = False

    entry: Entry
    _ready: CompiledEntry | None = None
    _nodes: int = 0
    _worst: WorstCost = WorstCost(0.0, 0.0)

    @property
    def compiled(self) -> CompiledEntry:
        """What runs. It is compiled when it is about to, for that takes its client's time too."""
        if self._ready is None:
            self._ready = CompiledEntry(self.entry)
        return self._ready

    def worst(self, nodes: int) -> WorstCost:
        """See `Runnable`. Most events are about as large as the last one."""
        if nodes != self._nodes:
            self._nodes, self._worst = nodes, self._worst_on(nodes)
        return self._worst

    def _worst_on(self, nodes: int) -> WorstCost:
        deep = shallow = 0.0
        for family, member in zip(self.entry.families, self.entry.members, strict=True):
            texts = [len(each) for each in member.literals if isinstance(each, bytes)]
            part = family.worst_cases().cost_on(nodes, max(texts, default=0))
            deep, shallow = deep + part.deep, shallow + part.shallow
        return WorstCost(deep, shallow)


class CompiledQueries:
    """Compiles queries when they are wanted, and forgets those wanted longest ago."""

    def __init__(self, most: int = MAX_COMPILED) -> None:
        self._most = most
        self._known: OrderedDict[Entry, Compiled] = OrderedDict()

    def get(self, entry: Entry) -> Compiled:
        """The query, compiled or to be."""
        known = self._known.get(entry)
        if known is not None:
            self._known.move_to_end(entry)
            return known
        made = self._known[entry] = Compiled(entry)
        if len(self._known) > self._most:
            self._known.popitem(last=False)
        return made

    def forget(self, entry: Entry) -> None:
        """Nobody has the query any more."""
        self._known.pop(entry, None)
