"""The family of all queries that share a template."""

from __future__ import annotations

from collections.abc import Sequence

from broker.content.index.holes import Literal
from broker.content.index.member import Member
from broker.content.index.members import Members
from broker.content.partial.template import Template
from broker.content.switching.projection import Projection


class Family:
    """All queries of one template. `sequence` rises from family to family."""

    __slots__ = ("_projections", "dead", "members", "sequence", "template")

    def __init__(self, template: Template, sequence: int) -> None:
        self.template = template
        self.members = Members(template.holes)
        self.sequence = sequence
        self.dead = False
        """Nobody has a query of it any more."""
        self._projections: dict[tuple[tuple[int, ...], tuple[int, ...]], Projection] = {}

    def add(self, literals: Sequence[Literal]) -> Member:
        """The member with these literals, new if there is none."""
        size = len(self.members)
        member = self.members.add(literals)
        if len(self.members) > size:
            for projection in self._projections.values():
                projection.add(member)
        return member

    def remove(self, member: Member) -> None:
        """Forget a member."""
        self.members.remove(member)
        for projection in self._projections.values():
            projection.remove(member)

    def projection(self, fixed: tuple[int, ...], open_holes: tuple[int, ...]) -> Projection:
        """The members parted by their literals in some holes, and indexed by others.

        Made of all members when it is asked for first; from then on it is kept up to date.
        """
        known = self._projections.get((fixed, open_holes))
        if known is None:
            known = Projection(self.template.holes, fixed, open_holes, self.members)
            self._projections[fixed, open_holes] = known
        return known
