"""Inference of a chain: a sequence of groups such as `a, (b | c)*, d?`.

The algorithm is CRX (Bex, Neven, Schwentick, Vansummeren: "Inference of Concise Regular Expressions
and DTDs", 2010). Each name occurs once, so a chain is deterministic. It accepts all sequences whose
statistics it is given.
"""

from __future__ import annotations

import heapq
from typing import Protocol

from broker.dtd.derivation.child_sequences import bits
from broker.dtd.derivation.expression import (
    Expression,
    choice,
    name_of,
    occurrence_sign,
    sequence,
)


class ISequences(Protocol):
    """Statistics of sequences of names; bit n of a set stands for `names[n]`."""

    @property
    def names(self) -> list[str]: ...

    @property
    def follow(self) -> list[int]:
        """For each name those that may come directly behind it."""
        ...

    def is_required(self, group: int) -> bool:
        """Return True if each sequence has a name of the group."""
        ...

    def is_single(self, group: int) -> bool:
        """Return True if no sequence has two names of the group, or one twice."""
        ...


def infer_chain(sequences: ISequences, *, is_evidence_strong: bool = True) -> Expression:
    """Return a chain for sequences with at least one name.

    With weak evidence no group is required, and groups of several names are repeated.
    """
    parts = []
    for group in _order_groups(_merge_alternatives(_find_classes(sequences.follow))):
        members = [name_of(sequences.names[at]) for at in bits(group)]
        single = sequences.is_single(group) and (is_evidence_strong or len(members) == 1)
        sign = occurrence_sign(
            optional=not (is_evidence_strong and sequences.is_required(group)),
            repeated=not single,
        )
        if len(members) == 1:
            parts.append(name_of(members[0].name, sign))
        else:
            parts.append(choice(members, sign))
    if len(parts) == 1 and parts[0].parts:
        return parts[0]
    return sequence(parts)


class _Class:
    """Names that may come before and behind each other, or a single name."""

    def __init__(self, members: int, behind: int) -> None:
        self.members = members
        self.behind = behind & ~members
        #: Names of other classes that may follow at any distance.
        self.before = 0


def _find_classes(follow: list[int]) -> list[_Class]:
    reach = list(follow)
    for middle in range(len(reach)):
        beyond = reach[middle]
        for start in range(len(reach)):
            if reach[start] >> middle & 1:
                reach[start] |= beyond
    members: dict[int, int] = {}
    first: dict[int, int] = {}
    for at, reached in enumerate(reach):
        # Names that reach each other reach the same names; a name on no cycle stands alone.
        key = reached if reached >> at & 1 else ~at
        members[key] = members.get(key, 0) | 1 << at
        first.setdefault(key, at)
    classes = [_Class(group, reach[first[key]]) for key, group in members.items()]
    for earlier in classes:
        for later in classes:
            if earlier.behind & later.members:
                later.before |= earlier.members
    return classes


def _merge_alternatives(classes: list[_Class]) -> list[_Class]:
    """Join single names with the same names before and behind: none occurs beside another."""
    merged: dict[tuple[int, int], _Class] = {}
    kept = []
    for each in classes:
        if each.members & (each.members - 1):
            kept.append(each)
            continue
        same = merged.setdefault((each.before, each.behind), each)
        if same is each:
            kept.append(each)
        else:
            same.members |= each.members
    return kept


def _order_groups(classes: list[_Class]) -> list[int]:
    """Sort topologically; among equals the name that occurred first goes first."""
    waiting = {at: each.before for at, each in enumerate(classes)}
    ready = [(_first(each), at) for at, each in enumerate(classes) if not each.before]
    heapq.heapify(ready)
    ordered = []
    while ready:
        _, at = heapq.heappop(ready)
        placed = classes[at]
        del waiting[at]
        ordered.append(placed.members)
        for other in waiting:
            if waiting[other] & placed.members:
                waiting[other] &= ~placed.members
                if not waiting[other]:
                    heapq.heappush(ready, (_first(classes[other]), other))
    return ordered


def _first(group: _Class) -> int:
    return (group.members & -group.members).bit_length()
