"""Announcements of groups: streams that only the sites of a group carry (X17).

Each site publishes a table `stack-groups` in the whole network: the sites of the group of each of
its stream patterns that has one. Other nodes then refuse publications and subscriptions of these
streams. They forget a group with the tables of its last site.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Annotated, Final, TypeAlias

from msgspec import Meta

from broker.cluster.address import NETWORK
from broker.cluster.map.own_links import Publication
from broker.cluster.messages import Value
from broker.cluster.tables.core import Tables
from broker.cluster.tables.effects import TableChanged
from broker.errors import BadName, ProtocolError
from broker.event.flow import MAX_PATTERNS, precedence
from broker.event.stream import StreamPattern
from broker.wire.codec import Schema

STACKS: Final = "stacks"
GROUPS: Final = "stack-groups"
MAX_SITES: Final = 64
_Sites: TypeAlias = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=64)], ...],
    Meta(min_length=1, max_length=MAX_SITES),
]
_SITES: Final = Schema[_Sites](_Sites, "sites of a group")
_versions = count(1)


class StackGroups:
    """`own` has the sites of the group of each own pattern that has one."""

    def __init__(self, tables: Tables, own: Mapping[str, Sequence[str]]) -> None:
        self._tables = tables
        self._own = {StreamPattern.parse(text): tuple(sites) for text, sites in own.items()}
        self._others: list[dict[StreamPattern, Sequence[str]]] | None = None
        """For each other node its patterns, the greatest rank first, with the sites of their
        groups; None until it is read."""
        self.version = next(_versions)
        """It changes with the groups; no other object has the same."""

    def publication(self) -> Publication | None:
        if not self._own:
            return None
        table = {pattern.text: sites for pattern, sites in self._own.items()}
        return Publication(GROUPS, self._tables.address.node, NETWORK, table)

    def apply_change(self, change: TableChanged) -> None:
        """Handle a changed table of another node."""
        if change.key.kind in (STACKS, GROUPS):
            self._others = None
            self.version = next(_versions)

    def find_sites(self, pattern: StreamPattern) -> Sequence[str]:
        """Return the sites of a group that carries all streams of a pattern, if this node is none
        of them."""
        if any(own.covers(pattern) for own in self._own):
            return ()
        if self._others is None:
            self._others = self._read_others()
        for patterns in self._others:
            carrying = next((each for each in patterns if each.covers(pattern)), None)
            if carrying is not None and patterns[carrying]:
                return patterns[carrying]
        return ()

    def _read_others(self) -> list[dict[StreamPattern, Sequence[str]]]:
        stacks = {key.author: table for key, table in self._tables.items(STACKS)}
        return [
            _read_group(table, stacks.get(key.author, {}))
            for key, table in self._tables.items(GROUPS)
            if key.author != self._tables.address.node
        ]


def _read_group(
    groups: Mapping[str, Value], stacks: Mapping[str, Value]
) -> dict[StreamPattern, Sequence[str]]:
    found: dict[StreamPattern, Sequence[str]] = {}
    for text in sorted({*groups, *stacks})[: 2 * MAX_PATTERNS]:
        try:
            sites = _SITES.convert(groups[text]) if text in groups else ()
            found[StreamPattern.parse(text)] = sites
        except (BadName, ProtocolError):
            continue
    return {each: found[each] for each in sorted(found, key=precedence, reverse=True)}
