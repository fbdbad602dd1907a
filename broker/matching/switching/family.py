"""The family of all queries that share a template."""

from __future__ import annotations

from collections.abc import Sequence

from broker.matching.index.member import Member
from broker.matching.index.parameter import Literal
from broker.matching.index.shared_index import IndexPool, Signature
from broker.matching.index.template_members import TemplateMembers
from broker.matching.partial.template import Template
from broker.matching.query.worst_case import WorstCaseCosts
from broker.matching.switching.plain import plain_of
from broker.matching.switching.projection import Projection
from broker.matching.switching.term import likely_form

#: With so many members a family is put into the index in which it will most likely be looked up,
#: so that the first shape, or document, finds it there: each newcomer costs its share, nobody more.
LARGE = 64


class Family:
    """All queries of one template. `sequence` rises from family to family."""

    __slots__ = (
        "_pool",
        "_projections",
        "_worst_cases",
        "dead",
        "members",
        "plain",
        "sequence",
        "template",
    )

    def __init__(self, template: Template, sequence: int, pool: IndexPool) -> None:
        self.template = template
        self.members = TemplateMembers(template.parameters, owner=self)
        self.sequence = sequence
        self.dead = False
        """Nobody has a query of it any more."""
        self.plain = plain_of(template)
        self._pool = pool
        self._projections: dict[tuple[tuple[int, ...], Signature], Projection] = {}
        self._worst_cases: WorstCaseCosts | None = None

    def add(self, literals: Sequence[Literal]) -> Member:
        """The member with these literals, new if there is none."""
        size = len(self.members)
        member = self.members.add(literals)
        if len(self.members) > size:
            for projection in self._projections.values():
                projection.add(member)
            if size + 1 == LARGE and not self._projections:
                self._foresee()
        return member

    def remove(self, member: Member) -> None:
        """Forget a member."""
        self.members.remove(member)
        for projection in self._projections.values():
            projection.remove(member)
        if not self.members:
            for _, signature in self._projections:
                self._pool.release_index(signature)
            self._projections.clear()

    def worst_cases(self) -> WorstCaseCosts:
        """What its queries cost at worst, for the budget; few families are ever asked."""
        if self._worst_cases is None:
            self._worst_cases = WorstCaseCosts(self.template.expression)
        return self._worst_cases

    def _foresee(self) -> None:
        form = likely_form(self.template)
        if form is not None:
            self.projection(form.holes, form.signature).fill(LARGE)

    def projection(self, holes: tuple[int, ...], signature: Signature) -> Projection:
        """The members by these holes, in the index for the signature; to be filled, if it is new.

        From then on it is kept up to date.
        """
        known = self._projections.get((holes, signature))
        if known is None:
            known = Projection(holes, self._pool.get_index(signature), self.members)
            self._projections[holes, signature] = known
        return known
