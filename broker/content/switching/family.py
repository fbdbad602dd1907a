"""The family of all queries that share a template."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from broker.content.index.holes import Literal
from broker.content.index.member import Member
from broker.content.index.members import Members
from broker.content.partial.template import Template


class Family:
    """All queries of one template. `sequence` rises from family to family."""

    __slots__ = ("_asked", "_projections", "dead", "members", "sequence", "template")

    def __init__(self, template: Template, sequence: int) -> None:
        self.template = template
        self.members = Members(template.holes)
        self.sequence = sequence
        self.dead = False
        """Nobody has a query of it any more."""
        self._projections: dict[tuple[int, ...], Projection] = {}
        self._asked: dict[int, Counter[Literal]] = {}

    def add(self, literals: Sequence[Literal]) -> Member:
        """The member with these literals, new if there is none."""
        size = len(self.members)
        member = self.members.add(literals)
        if len(self.members) > size:
            for projection in self._projections.values():
                projection.add(member)
            for hole, asked in self._asked.items():
                asked[member.literals[hole]] += 1
        return member

    def remove(self, member: Member) -> None:
        """Forget a member."""
        self.members.remove(member)
        for projection in self._projections.values():
            projection.remove(member)
        for hole, asked in self._asked.items():
            asked[member.literals[hole]] -= 1
            if not asked[member.literals[hole]]:
                del asked[member.literals[hole]]

    def asks(self, hole: int, literal: Literal) -> bool:
        """Whether any member has this literal in a hole."""
        asked = self._asked.get(hole)
        if asked is None:
            asked = Counter(member.literals[hole] for member in self.members)
            self._asked[hole] = asked
        return literal in asked

    def on(self, holes: tuple[int, ...]) -> Members | Projection:
        """The members by these of their holes, the others left open."""
        if len(holes) == len(self.template.holes):
            return self.members
        known = self._projections.get(holes)
        if known is None:
            known = self._projections[holes] = Projection(self, holes)
        return known


class Projection:
    """A family's members by some of their holes: several members may be one here.

    A shape decides some comparisons by itself, and leaves others undecided.
    """

    __slots__ = ("_holes", "_members")

    def __init__(self, family: Family, holes: tuple[int, ...]) -> None:
        self._holes = holes
        self._members = Members([family.template.holes[hole] for hole in holes])
        for member in family.members:
            self.add(member)

    def add(self, member: Member) -> None:
        """Take in a member of the family."""
        projected = self._members.add(self._literals(member))
        if projected.entry is None:
            projected.entry = {}
        projected.entry[member] = None

    def remove(self, member: Member) -> None:
        """Forget a member of the family."""
        projected = self._members.add(self._literals(member))
        del projected.entry[member]
        if not projected.entry:
            self._members.remove(projected)

    def find_rows(
        self,
        columns: Sequence[Sequence[Any]],
        rows: int,
        known: dict[Any, Any] | None = None,
    ) -> Sequence[tuple[int, Sequence[Member]]]:
        """As `Members.find_rows`, with the family's members."""
        return [
            (row, [member for projected in found for member in projected.entry])
            for row, found in self._members.find_rows(columns, rows, known)
        ]

    def _literals(self, member: Member) -> list[Literal]:
        return [member.literals[hole] for hole in self._holes]
