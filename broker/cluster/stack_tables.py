"""Announcement of each node's stacks in tables, and disagreements between nodes about them.

A node publishes a table `stacks` in the whole network: for each stream pattern with a stack of its
own the plug-in and its version. The table `stack-feeds` has the patterns whose events the node also
wants in frames, to carry them on, each with the node's address.

Nodes that disagree about stacks still get all events: those of a pattern are a flow of their own,
whose events a node without its transport requests from the origin's log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Annotated, Final, NamedTuple, TypeAlias

from msgspec import Meta

from broker.cluster.address import NETWORK, Address, address_or_none
from broker.cluster.map.own_links import Publication
from broker.cluster.messages import Value
from broker.cluster.stack_groups import STACKS, StackGroups
from broker.cluster.tables.core import Tables
from broker.cluster.tables.effects import TableChanged
from broker.errors import ProtocolError
from broker.wire.codec import Count, Schema

FEEDS: Final = "stack-feeds"
#: Patterns of one author that are compared.
MAX_PATTERNS: Final = 64
#: The name of a transport, and its version.
CarriedBy: TypeAlias = tuple[Annotated[str, Meta(min_length=1, max_length=64)], Count]
#: An own one, perhaps with the sites that alone carry its streams.
OwnStack: TypeAlias = CarriedBy | tuple[str, int, Sequence[str]]

_CARRIED_BY: Final = Schema[CarriedBy](CarriedBy, "stack of a node")


class Disagreement(NamedTuple):
    pattern: str
    sentence: str


class StackTables:
    """`own` names the transport of each own stream pattern that is not carried by the default."""

    def __init__(self, tables: Tables, own: Mapping[str, OwnStack]) -> None:
        self._tables = tables
        self._own: dict[str, CarriedBy] = {text: each[:2] for text, each in own.items()}
        self.groups = StackGroups(
            tables, {text: each[2] for text, each in own.items() if len(each) > 2 and each[2]}
        )
        self._fed: dict[str, set[Address]] | None = None
        """Nodes by the pattern that they want in frames; None until it is read."""

    @property
    def has_own(self) -> bool:
        """True if another transport than the default one carries streams of this node."""
        return bool(self._own)

    def publications(self) -> list[Publication]:
        """Return this node's tables: none if the default transport carries all its streams."""
        if not self._own:
            return []
        own = Publication(STACKS, self._tables.address.node, NETWORK, dict(self._own))
        groups = self.groups.publication()
        return [own] if groups is None else [own, groups]

    def feed_request(self, patterns: Collection[str]) -> Publication:
        """Return the table of the patterns whose events this node wants in frames."""
        own = self._tables.address
        return Publication(FEEDS, own.node, NETWORK, dict.fromkeys(patterns, str(own)))

    def apply_change(self, change: TableChanged) -> None:
        """Handle a changed table of another node."""
        self.groups.apply_change(change)
        if change.key.kind == FEEDS:
            self._fed = None

    def fed_destinations(
        self, pattern: str, destination_of: Callable[[Address], Address]
    ) -> frozenset[Address]:
        """Return the destinations that want events of a pattern's flows in frames."""
        if self._fed is None:
            self._fed = self._read_feeds()
        return frozenset(map(destination_of, self._fed.get(pattern, ())))

    def _read_feeds(self) -> dict[str, set[Address]]:
        found: dict[str, set[Address]] = {}
        for key, table in self._tables.items(FEEDS):
            for pattern in sorted(table)[:MAX_PATTERNS]:
                address = address_or_none(str(table[pattern]))
                if address is not None and address.node == key.author:
                    found.setdefault(pattern, set()).add(address)
        return found

    def disagreements(self, members: Iterable[str]) -> list[str]:
        """Return a sentence for each pattern that another node carries differently.

        `members` are the nodes of the cluster, which may have no table.
        """
        return [each.sentence for each in self.find_disagreements(members)]

    def find_disagreements(self, members: Iterable[str]) -> list[Disagreement]:
        """Return them with their patterns."""
        others = {key.author: table for key, table in self._tables.items(STACKS)}
        others |= {name: {} for name in members if name not in others}
        others.pop(self._tables.address.node, None)
        return [
            each
            for name in sorted(others)
            for each in _compare(name, self._own, _read_table(others[name]))
        ]


def _read_table(table: Mapping[str, Value]) -> dict[str, CarriedBy]:
    found: dict[str, CarriedBy] = {}
    for pattern in sorted(table)[:MAX_PATTERNS]:
        try:
            found[pattern] = _CARRIED_BY.convert(table[pattern])
        except ProtocolError:
            continue
    return found


def _compare(
    node: str, own: Mapping[str, CarriedBy], other: Mapping[str, CarriedBy]
) -> Iterable[Disagreement]:
    for pattern in sorted({*own, *other}):
        here, there = own.get(pattern), other.get(pattern)
        if here != there:
            carried = f"{node} has the stack {_text(there)}, this node {_text(here)}"
            yield Disagreement(pattern, f'streams."{pattern}": {carried}')


def _text(carried: CarriedBy | None) -> str:
    return "of the next wider pattern" if carried is None else f"{carried[0]} {carried[1]}"
