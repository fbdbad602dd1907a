"""Announcements of groups: streams that only the sites of a group carry (X17).

Each site publishes a table `stack-groups` in the whole network: the sites of the group of each of
its stream patterns that has one. Other nodes then refuse publications and subscriptions of these
streams, also while all sites are away. A site that returns without the table ends that.
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
#: Nodes whose groups are known. Beyond them the one that was first known is forgotten.
MAX_NODES: Final = 4096
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
        self._others: dict[str, dict[StreamPattern, Sequence[str]]] = {}
        """For each other node, also one that is away, its patterns, the greatest rank first, with
        the sites of their groups."""
        for key, _ in tables.items(GROUPS):
            self._read_groups(key.author)
        self.version = next(_versions)
        """It changes with the groups; no other object has the same."""

    def publication(self) -> Publication | None:
        if not self._own:
            return None
        table = {pattern.text: sites for pattern, sites in self._own.items()}
        return Publication(GROUPS, self._tables.address.node, NETWORK, table)

    def apply_change(self, change: TableChanged) -> None:
        """Handle a changed table of another node."""
        author, is_of_stacks = change.key.author, change.key.kind in (STACKS, GROUPS)
        if not is_of_stacks and author not in self._others:
            return
        has_groups = any(key.author == author for key, _ in self._tables.items(GROUPS))
        if has_groups and is_of_stacks:
            self._read_groups(author)
        elif not has_groups and (change.is_restart or not change.is_removed):
            # It is there, without its group.
            self._others.pop(author, None)
        else:
            return
        self.version = next(_versions)

    def find_sites(self, pattern: StreamPattern) -> Sequence[str]:
        """Return the sites of a group that carries all streams of a pattern, if this node is none
        of them."""
        if any(own.covers(pattern) for own in self._own):
            return ()
        for patterns in self._others.values():
            carrying = next((each for each in patterns if each.covers(pattern)), None)
            if carrying is not None and patterns[carrying]:
                return patterns[carrying]
        return ()

    def _read_groups(self, author: str) -> None:
        if author == self._tables.address.node:
            return
        groups, stacks = (
            next((table for key, table in self._tables.items(kind) if key.author == author), {})
            for kind in (GROUPS, STACKS)
        )
        self._others[author] = _read_group(groups, stacks)
        if len(self._others) > MAX_NODES:
            del self._others[next(iter(self._others))]


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
