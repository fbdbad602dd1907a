"""A family bound to a shape: which of its members a document of that shape matches.

What the partial evaluator left of the template becomes one of three plans. Conjunctions of
comparisons are asked of the indexes that templates share. Any other formula is evaluated on bitmaps
of members. And what is true of the shape needs no values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from broker.matching.engine.batch import ShapeBatch
from broker.matching.engine.index_conjunction import (
    ConjunctionForm,
    ConjunctionReader,
    IndexConjunction,
)
from broker.matching.engine.indexed_members import IndexedMembers
from broker.matching.engine.member_scan import scan_members
from broker.matching.engine.query_family import QueryFamily
from broker.matching.index.member import Member
from broker.matching.partial.formula import (
    TRUE,
    And,
    Atom,
    BooleanAtom,
    Formula,
    Not,
    Or,
    TruthValue,
    all_of,
    any_of,
    evaluate_formula,
    is_decided,
    iterate_sources,
    necessary_condition,
)
from broker.matching.partial.source import Source

#: A comparison on bitmaps takes some 3 us, an evaluation by lxml some 15 us, and a parse before the
#: first of them some 30 us.
FREE_COMPARISONS = 10
FREE_COMPARISONS_A_MEMBER = 6


#: The value of a source in a document.
ValueOf: TypeAlias = Callable[[Source], Any]


class AlwaysBinding:
    """Every member matches every document of the shape."""

    def __init__(self, family: QueryFamily, decided: bool) -> None:
        self.family = family
        self.is_decided = decided
        """Whether members found match for certain; else each is to be evaluated (F6)."""

    def matches_member(self, member: Member, value_of: ValueOf) -> bool:
        """Whether a member matches, or may match, a document with these values."""
        return True

    def prepare_members(self, most: int) -> int:
        """Get ready, with up to so many members; how many it took."""
        return 0

    @property
    def is_ready(self) -> bool:
        """Whether all members are to be found."""
        return True

    def scan_unprepared(self, value_of: ValueOf) -> list[Member] | None:
        """Those that match, or may match, of the members that are not to be found yet.

        None if to find them out takes more than to get ready.
        """
        return []

    def match_rows(self, batch: ShapeBatch) -> Sequence[tuple[int, Sequence[Member]]]:
        """All members in all rows."""
        members = list(self.family.members)
        return [(row, members) for row in range(batch.size)]


class IndexedBinding:
    """Members for which one of several conjunctions holds."""

    def __init__(self, family: QueryFamily, decided: bool, found: list[IndexConjunction]) -> None:
        self.family = family
        self.is_decided = decided
        """See `AlwaysBinding`, here and below."""
        self.conjunctions = found
        self._indexed_members: dict[ConjunctionForm, IndexedMembers] = {
            form: family.indexed_members(form.parameters, form.signature)
            for form in dict.fromkeys(term.form for term in found)
        }

    def matches_member(self, member: Member, value_of: ValueOf) -> bool:
        """See `AlwaysBinding`."""
        holes, literals = self.family.template.parameters, member.literals
        return any(
            all(
                holes[hole].test(value_of(source), literals[hole])
                for hole, source in zip(term.form.parameters, term.sources, strict=True)
            )
            and all(map(value_of, term.checks))
            for term in self.conjunctions
        )

    def members_for(self, term: IndexConjunction) -> IndexedMembers:
        """The family's members by what the term compares."""
        return self._indexed_members[term.form]

    def prepare_members(self, most: int) -> int:
        """See `AlwaysBinding`."""
        taken = 0
        for projection in self._indexed_members.values():
            taken += projection.index_members(most - taken)
        return taken

    @property
    def is_ready(self) -> bool:
        """See `AlwaysBinding`."""
        return not any(projection.unindexed for projection in self._indexed_members.values())

    def scan_unprepared(self, value_of: ValueOf) -> list[Member] | None:
        """See `AlwaysBinding`."""
        found: list[Member] = []
        for form, projection in self._indexed_members.items():
            if not projection.unindexed:
                continue
            formula = any_of(_to_formula(term) for term in self.conjunctions if term.form is form)
            holes = self.family.template.parameters
            hits = scan_members(formula, holes, projection.unindexed, value_of)
            if hits is None:
                return None
            found += hits
        return found


class BitmapBinding:
    """Members for which a formula holds that has negations, or holes with several values.

    Few members in a long formula are cheaper to evaluate than to look up: then all may match.
    """

    def __init__(self, family: QueryFamily, decided: bool, formula: Formula) -> None:
        self.family = family
        self._formula = formula
        self._is_formula_decided = decided
        self._comparisons = sum(1 for _ in iterate_sources(formula))
        self.is_ready = False
        """See `AlwaysBinding`, here and below."""

    def matches_member(self, member: Member, value_of: ValueOf) -> bool:
        """See `AlwaysBinding`."""
        return evaluate_formula(
            self._formula, self.family.template.parameters, member.literals, value_of
        )

    def prepare_members(self, most: int) -> int:
        """See `AlwaysBinding`."""
        taken = self.family.members.number_members(most)
        self.is_ready = not self.family.members.unnumbered
        return taken

    def scan_unprepared(self, value_of: ValueOf) -> list[Member] | None:
        """See `AlwaysBinding`."""
        waiting = [] if self._is_expensive else self.family.members.unnumbered
        return scan_members(self._formula, self.family.template.parameters, waiting, value_of)

    @property
    def is_decided(self) -> bool:
        """See `AlwaysBinding`."""
        return self._is_formula_decided and not self._is_expensive

    @property
    def _is_expensive(self) -> bool:
        return self._comparisons > FREE_COMPARISONS + FREE_COMPARISONS_A_MEMBER * len(
            self.family.members
        )

    def match_rows(self, batch: ShapeBatch) -> Sequence[tuple[int, Sequence[Member]]]:
        """The formula, row by row."""
        found: list[tuple[int, Sequence[Member]]] = []
        members = self.family.members
        if self._is_expensive:
            everyone = list(members)
            return [(row, everyone) for row in range(batch.size)]
        for row in range(batch.size):
            bits = self._match_row(self._formula, batch, row)
            if bits:
                found.append((row, members.select_members(bits)))
        return found

    def _match_row(self, formula: Formula, batch: ShapeBatch, row: int) -> int:
        members = self.family.members
        match formula:
            case Atom(parameter=hole, source=source):
                return members.match_bitmap(hole, batch.column(source)[row])
            case BooleanAtom(source=source):
                return members.full_bitmap if batch.column(source)[row] else 0
            case Not(part=part):
                return members.full_bitmap & ~self._match_row(part, batch, row)
            case And(parts=parts):
                bits = members.full_bitmap
                for part in parts:
                    bits &= self._match_row(part, batch, row)
                    if not bits:
                        break
                return bits
            case Or(parts=parts):
                bits = 0
                for part in parts:
                    bits |= self._match_row(part, batch, row)
                return bits
            case TruthValue():
                return members.full_bitmap if formula is TRUE else 0


Binding: TypeAlias = AlwaysBinding | IndexedBinding | BitmapBinding


def _to_formula(term: IndexConjunction) -> Formula:
    compared = zip(term.form.parameters, term.sources, strict=True)
    return all_of(
        [Atom(*pair) for pair in compared] + [BooleanAtom(check) for check in term.checks]
    )


def bind_formula(family: QueryFamily, formula: Formula, terms: ConjunctionReader) -> Binding | None:
    """The plan for a formula, None if no document of the shape can match."""
    decided = is_decided(formula)
    if not decided:
        formula = necessary_condition(formula)
    if formula is TruthValue.FALSE:
        return None
    if formula is TRUE:
        return AlwaysBinding(family, decided)
    found = terms.read_formula(family.template, formula, weaken=not decided)
    if found is not None:
        return IndexedBinding(family, decided, found)
    return BitmapBinding(family, decided, formula)
