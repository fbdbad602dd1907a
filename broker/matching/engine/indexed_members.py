"""A family's members in an index that templates share, by some of their holes.

A shape may leave some comparisons of a template undecided: those holes are not looked at.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import islice

from broker.matching.index.member import Member
from broker.matching.index.shared_index import SharedIndex
from broker.matching.index.shrinking_dict import ShrinkingDict


class IndexedMembers:
    """The members in `index`; of those that were there before, `fill` takes in some at a time."""

    __slots__ = ("_parameters", "_postings", "_unindexed", "index")

    def __init__(self, holes: Sequence[int], index: SharedIndex, members: Iterable[Member]) -> None:
        """`holes` of the template are those of the index, in its order."""
        self._parameters = tuple(holes)
        self.index = index
        self._postings = ShrinkingDict[Member, Member]()
        self._unindexed = dict.fromkeys(members)

    @property
    def unindexed(self) -> Collection[Member]:
        """The members that are not to be found yet."""
        return self._unindexed.keys()

    def index_members(self, most: int) -> int:
        """Take in up to so many members; how many it took."""
        taken = list(islice(self._unindexed, most))
        for member in taken:
            del self._unindexed[member]
            self.add_member(member)
        return len(taken)

    def add_member(self, member: Member) -> None:
        """Take in a new member of the family."""
        literals = member.literals
        projected = tuple([literals[hole] for hole in self._parameters])
        if projected == literals:
            # One tuple is enough for both.
            projected = literals
        self._postings[member] = self.index.add(projected, member)

    def remove_member(self, member: Member) -> None:
        """Forget a member of the family."""
        if member in self._unindexed:
            del self._unindexed[member]
            return
        self.index.remove(self._postings[member])
        del self._postings[member]
