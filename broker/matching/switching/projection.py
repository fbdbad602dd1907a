"""A family's members in an index that templates share, by some of their holes.

A shape may leave some comparisons of a template undecided: those holes are not looked at.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import islice

from broker.matching.index.member import Member
from broker.matching.index.shared_index import SharedIndex
from broker.matching.index.shrinking_dict import ShrinkingDict


class Projection:
    """The members in `index`; of those that were there before, `fill` takes in some at a time."""

    __slots__ = ("_holes", "_postings", "_waiting", "index")

    def __init__(self, holes: Sequence[int], index: SharedIndex, members: Iterable[Member]) -> None:
        """`holes` of the template are those of the index, in its order."""
        self._holes = tuple(holes)
        self.index = index
        self._postings = ShrinkingDict[Member, Member]()
        self._waiting = dict.fromkeys(members)

    @property
    def waiting(self) -> Collection[Member]:
        """The members that are not to be found yet."""
        return self._waiting.keys()

    def fill(self, most: int) -> int:
        """Take in up to so many members; how many it took."""
        taken = list(islice(self._waiting, most))
        for member in taken:
            del self._waiting[member]
            self.add(member)
        return len(taken)

    def add(self, member: Member) -> None:
        """Take in a new member of the family."""
        literals = member.literals
        projected = tuple([literals[hole] for hole in self._holes])
        if projected == literals:
            # One tuple is enough for both.
            projected = literals
        self._postings[member] = self.index.add(projected, member)

    def remove(self, member: Member) -> None:
        """Forget a member of the family."""
        if member in self._waiting:
            del self._waiting[member]
            return
        self.index.remove(self._postings[member])
        del self._postings[member]
