"""A family's members by some of their holes, as a shape has use for them.

A shape decides some comparisons by itself: where `@name` is the constant `SC_Lat`, only queries
that ask for `SC_Lat` are concerned, and all that is left to compare is `@value`. Others it leaves
undecided, so they are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from broker.content.index.holes import Hole, Literal
from broker.content.index.member import Member
from broker.content.index.members import Members
from broker.content.index.shrinking import ShrinkingDict


class Part:
    """Members that have the same literals in the fixed holes, by their open ones."""

    __slots__ = ("_members",)

    def __init__(self, holes: Sequence[Hole]) -> None:
        # The entry of each is the family's members that it stands for.
        self._members = Members(holes)

    def __len__(self) -> int:
        return len(self._members)

    def add(self, literals: Sequence[Literal], member: Member) -> None:
        """Take in a member of the family."""
        projected = self._members.add(literals)
        projected.entry = (*(projected.entry or ()), member)

    def remove(self, literals: Sequence[Literal], member: Member) -> None:
        """Forget a member of the family."""
        projected = self._members.add(literals)
        projected.entry = tuple(each for each in projected.entry if each is not member)
        if not projected.entry:
            self._members.remove(projected)

    def find_rows(
        self,
        columns: Sequence[Sequence[Any]],
        rows: int,
        known: dict[Any, Any] | None = None,
    ) -> list[tuple[int, Sequence[Member]]]:
        """As `Members.find_rows`, with the family's members."""
        return [
            (row, projected.entry)
            for row, found in self._members.find_rows(columns, rows, known)
            for projected in found
        ]


class Projection:
    """Parts of a family, by the literals in the fixed holes."""

    __slots__ = ("_fixed", "_holes", "_open", "_parts")

    def __init__(
        self,
        holes: Sequence[Hole],
        fixed: tuple[int, ...],
        open_holes: tuple[int, ...],
        members: Iterable[Member],
    ) -> None:
        self._fixed = fixed
        self._open = open_holes
        self._holes = [holes[hole] for hole in open_holes]
        self._parts = ShrinkingDict[tuple[Literal, ...], Part]()
        for member in members:
            self.add(member)

    def add(self, member: Member) -> None:
        """Take in a member of the family."""
        key, literals = self._split(member)
        part = self._parts.get(key)
        if part is None:
            part = self._parts[key] = Part(self._holes)
        part.add(literals, member)

    def remove(self, member: Member) -> None:
        """Forget a member of the family."""
        key, literals = self._split(member)
        part = self._parts[key]
        part.remove(literals, member)
        if not len(part):
            del self._parts[key]

    def part(self, literals: tuple[Literal, ...]) -> Part | None:
        """The members whose literals in the fixed holes equal these; None if there are none."""
        if any(literal != literal for literal in literals):
            # A NaN equals nothing, but a dict would find it.
            return None
        return self._parts.get(literals)

    def _split(self, member: Member) -> tuple[tuple[Literal, ...], list[Literal]]:
        literals = member.literals
        return tuple([literals[i] for i in self._fixed]), [literals[i] for i in self._open]
