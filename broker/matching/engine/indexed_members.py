"""A family's members in a shared index, by some of their parameters.

A shape may leave comparisons of a template undecided. Their parameters are ignored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import islice

from broker.matching.index.member import Member
from broker.matching.index.shared_index import SharedIndex
from broker.matching.index.shrinking_dict import ShrinkingDict


class IndexedMembers:
    """The members in `index`. `index_members` adds those that existed before, in portions."""

    __slots__ = ("_parameters", "_postings", "_unindexed", "index")

    def __init__(
        self, parameters: Sequence[int], index: SharedIndex, members: Iterable[Member]
    ) -> None:
        """`parameters` are those of the template, in the index's order."""
        self._parameters = tuple(parameters)
        self.index = index
        self._postings = ShrinkingDict[Member, Member]()
        self._unindexed = dict.fromkeys(members)

    @property
    def unindexed(self) -> Collection[Member]:
        return self._unindexed.keys()

    def index_members(self, limit: int) -> int:
        """Add up to `limit` members to the index; return their number."""
        taken = list(islice(self._unindexed, limit))
        for member in taken:
            del self._unindexed[member]
            self.add_member(member)
        return len(taken)

    def add_member(self, member: Member) -> None:
        literals = member.literals
        projected = tuple([literals[parameter] for parameter in self._parameters])
        if projected == literals:
            # Share one tuple.
            projected = literals
        self._postings[member] = self.index.add(projected, member)

    def remove_member(self, member: Member) -> None:
        if member in self._unindexed:
            del self._unindexed[member]
            return
        self.index.remove(self._postings[member])
        del self._postings[member]
