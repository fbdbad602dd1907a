"""How what a node wants comes to flow: up through the units, one echo after the other."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import attrs

from broker.cluster.messages import Value
from broker.cluster.tables.table import Cuts

#: The entry of a `flowing` table that holds the cuts.
CUTS_KEY = ""
#: The entry that tells which leader is the latest, and whether it leads. No node is called so.
TERM_KEY = "#"
#: One more still travels.
_MAX_TERM = 1 << 62


@attrs.define(eq=False)
class Propagation:
    """One version of the own profile on its way; many keys may wait for it.

    `level` None: its echo in the own cluster is awaited. Level n: the flowing table of the n-th
    unit from below, which is to say that `author`'s table at `stand` is covered.
    """

    keys: set[Hashable] = attrs.field(factory=set)
    version: tuple[int, int] = (0, 0)
    """Of the own profile, once it is published."""
    level: int | None = None
    author: str = ""
    covered_by: tuple[int, int] = (0, 0)
    cuts: Cuts = attrs.field(factory=dict)

    def restart(self, node: str) -> None:
        """Everybody in the own cluster has it; or begin anew, as a leader is gone."""
        self.level, self.author, self.covered_by = 0, node, self.version

    def advance(self, leader: str, table: Mapping[str, Value]) -> bool:
        """Go one level up, if a leader's flowing table allows it."""
        entry = parse_covered(table.get(self.author))
        if self.level is None or entry is None or entry[0] < self.covered_by:
            return False
        self.level, self.author, self.covered_by = self.level + 1, leader, entry[1]
        merge_cuts(self.cuts, parse_cuts(table.get(CUTS_KEY)))
        return True


def parse_covered(value: Value | None) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """A member's entry in a flowing table: which of its versions is covered by which summary."""
    if isinstance(value, tuple) and len(value) == 4 and all(type(each) is int for each in value):
        return (value[0], value[1]), (value[2], value[3])
    return None


def parse_cuts(value: Any) -> list[tuple[str, tuple[int, int]]]:
    """The cuts as another node wrote them; what is none is left out."""
    entries = value if isinstance(value, tuple) else ()
    return [
        (mark[0], (mark[1], mark[2]))
        for mark in entries
        if isinstance(mark, tuple) and [type(each) for each in mark] == [str, int, int]
    ]


def parse_term(table: Mapping[str, Value]) -> tuple[int, bool]:
    """The term of the leader that wrote a flowing table, and whether it leads now."""
    term = table.get(TERM_KEY)
    if isinstance(term, tuple) and [type(each) for each in term] == [int, bool]:
        return min(term[0], _MAX_TERM), term[1]
    return 0, False


def merge_cuts(cuts: Cuts, more: Iterable[tuple[str, tuple[int, int]]]) -> None:
    """Of each origin the later one: a later cut is a cut too."""
    for origin, mark in more:
        if cuts.get(origin, (0, 0)) <= mark:
            cuts[origin] = mark
