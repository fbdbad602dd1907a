"""The family of all queries that share a template."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import islice

from broker.matching.engine.index_conjunction import predict_form
from broker.matching.index.member import Member
from broker.matching.index.parameter import Literal
from broker.matching.index.shared_index import IndexPool, SharedIndex, Signature
from broker.matching.index.shrinking_dict import ShrinkingDict
from broker.matching.index.template_members import TemplateMembers
from broker.matching.partial.plain_path import find_plain_part
from broker.matching.partial.template import Template
from broker.matching.query.worst_case import WorstCaseCosts


class IndexedMembers:
    """The members in `index`. `index_members` adds earlier ones in portions."""

    __slots__ = ("_parameters", "_postings", "_unindexed", "index")

    def __init__(
        self, parameters: Sequence[int], index: SharedIndex, members: Iterable[Member]
    ) -> None:
        """`parameters` are the template's, in the index's order."""
        self._parameters = tuple(parameters)
        self.index = index
        self._postings = ShrinkingDict[Member, Member]()
        self._unindexed = dict.fromkeys(members)

    @property
    def unindexed(self) -> Collection[Member]:
        return self._unindexed.keys()

    def index_members(self, limit: int) -> int:
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


#: A family of this size is indexed before its first look-up, so that later members are added one by
#: one.
EARLY_INDEX_SIZE = 64


class QueryFamily:
    """All queries of one template. Later families have a higher `sequence`."""

    __slots__ = (
        "_pool",
        "_by_signature",
        "_worst_case_costs",
        "is_dead",
        "members",
        "plain_part",
        "sequence",
        "template",
    )

    def __init__(self, template: Template, sequence: int, pool: IndexPool) -> None:
        self.template = template
        self.members = TemplateMembers(template.parameters, owner=self)
        self.sequence = sequence
        self.is_dead = False
        self.plain_part = find_plain_part(template)
        self._pool = pool
        self._by_signature: dict[tuple[tuple[int, ...], Signature], IndexedMembers] = {}
        self._worst_case_costs: WorstCaseCosts | None = None

    def add_member(self, literals: Sequence[Literal]) -> Member:
        """Return the member with these literals, which may be known."""
        size = len(self.members)
        member = self.members.add(literals)
        if len(self.members) > size:
            for indexed in self._by_signature.values():
                indexed.add_member(member)
            if size + 1 == EARLY_INDEX_SIZE and not self._by_signature:
                if form := predict_form(self.template):
                    indexed = self.indexed_members(form.parameters, form.signature)
                    indexed.index_members(EARLY_INDEX_SIZE)
        return member

    def remove_member(self, member: Member) -> None:
        self.members.remove(member)
        for indexed in self._by_signature.values():
            indexed.remove_member(member)
        if not self.members:
            for _, signature in self._by_signature:
                self._pool.release_index(signature)
            self._by_signature.clear()

    def worst_case_costs(self) -> WorstCaseCosts:
        if self._worst_case_costs is None:
            self._worst_case_costs = WorstCaseCosts(self.template.expression)
        return self._worst_case_costs

    def indexed_members(self, parameters: tuple[int, ...], signature: Signature) -> IndexedMembers:
        """Return the members by these parameters, in the index for the signature.

        A new result is empty; `index_members` fills it.
        """
        indexed = self._by_signature.get((parameters, signature))
        if indexed is None:
            indexed = IndexedMembers(parameters, self._pool.get_index(signature), self.members)
            self._by_signature[parameters, signature] = indexed
        return indexed
