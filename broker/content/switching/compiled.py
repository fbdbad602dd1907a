"""Queries compiled by lxml, for what the index does not decide; the latest are kept."""

from __future__ import annotations

from collections import OrderedDict

import attrs

from broker.content.evaluation import CompiledXPath
from broker.content.query.limits import QueryLimits
from broker.content.query.query import parse_query
from broker.content.query.tree import Expression
from broker.content.switching.entry import Entry

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
    """A query's expression ready to run. It is parsed again only when its cost is to be told."""

    __slots__ = ("_entry", "_expression")

    #: Who wants everything is no entry.
    always = False

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry.compilable, entry.namespaces, entry.reading, entry.calls)
        self._entry = entry
        self._expression: Expression | None = None

    @property
    def expression(self) -> Expression:
        """What the query was read as."""
        if self._expression is None:
            entry = self._entry
            self._expression = parse_query(entry.text, dict(entry.namespaces), _ANY).expression
        return self._expression


@attrs.define(eq=False)
class Compiled:
    """A query ready to run on a document; see `Budget` for `estimates`."""

    entry: Entry
    compiled: CompiledEntry
    estimates: dict[int, float] = attrs.field(factory=dict)


class CompiledQueries:
    """Compiles queries when they are wanted, and forgets those wanted longest ago."""

    def __init__(self, most: int = MAX_COMPILED) -> None:
        self._most = most
        self._known: OrderedDict[Entry, Compiled] = OrderedDict()

    def get(self, entry: Entry) -> Compiled:
        """The compiled query."""
        known = self._known.get(entry)
        if known is not None:
            self._known.move_to_end(entry)
            return known
        made = self._known[entry] = Compiled(entry, CompiledEntry(entry))
        if len(self._known) > self._most:
            self._known.popitem(last=False)
        return made

    def forget(self, entry: Entry) -> None:
        """Nobody has the query any more."""
        self._known.pop(entry, None)
