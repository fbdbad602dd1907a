"""Propagation of one node's interest up through the units, one echo after another."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import attrs

from broker.cluster.messages import Value
from broker.cluster.tables.table import Cuts

CUTS_KEY = ""
#: No node can have this name.
TERM_KEY = "#"
#: The next term can still be encoded.
_MAX_TERM = 1 << 62


@attrs.define(eq=False)
class Propagation:
    """Progress of one version of the own profile up through the units, one echo after another.

    While `level` is None, the echo in the own cluster is awaited. At level n the n-th unit's
    `flowing` table must cover `author`'s table at version `covered_by`.
    """

    keys: set[Hashable] = attrs.field(factory=set)
    version: tuple[int, int] = (0, 0)
    level: int | None = None
    author: str = ""
    covered_by: tuple[int, int] = (0, 0)
    cuts: Cuts = attrs.field(factory=dict)

    def restart(self, node: str) -> None:
        """Start at level 0: all nodes of the cluster have the version, or a leader is gone."""
        self.level, self.author, self.covered_by = 0, node, self.version

    def advance(self, leader: str, table: Mapping[str, Value]) -> bool:
        entry = parse_covered(table.get(self.author))
        if self.level is None or entry is None or entry[0] < self.covered_by:
            return False
        self.level, self.author, self.covered_by = self.level + 1, leader, entry[1]
        merge_cuts(self.cuts, parse_cuts(table.get(CUTS_KEY)))
        return True


def parse_covered(value: Value | None) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Return a member's version, and the summary version that covers it."""
    if isinstance(value, tuple) and len(value) == 4 and all(type(each) is int for each in value):
        return (value[0], value[1]), (value[2], value[3])
    return None


def parse_cuts(value: Any) -> list[tuple[str, tuple[int, int]]]:
    entries = value if isinstance(value, tuple) else ()
    return [
        (mark[0], (mark[1], mark[2]))
        for mark in entries
        if isinstance(mark, tuple) and [type(each) for each in mark] == [str, int, int]
    ]


def parse_term(table: Mapping[str, Value]) -> tuple[int, bool]:
    """Return the leader's term, and whether it leads now."""
    term = table.get(TERM_KEY)
    if isinstance(term, tuple) and [type(each) for each in term] == [int, bool]:
        return min(term[0], _MAX_TERM), term[1]
    return 0, False


def merge_cuts(cuts: Cuts, more: Iterable[tuple[str, tuple[int, int]]]) -> None:
    for origin, mark in more:
        if cuts.get(origin, (0, 0)) <= mark:
            cuts[origin] = mark
