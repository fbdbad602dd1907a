"""A family bound to a shape: which of its members a document of that shape matches.

What the partial evaluator left of the template becomes one of three plans. Conjunctions of
comparisons are asked of the indexes that templates share. Any other formula is evaluated on bitmaps
of members. And what is true of the shape needs no values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

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
    is_decided,
    iterate_sources,
    necessary_condition,
)
from broker.matching.partial.formula_evaluation import evaluate_formula
from broker.matching.partial.source import Source
from broker.matching.switching.batch import Batch
from broker.matching.switching.family import Family
from broker.matching.switching.projection import Projection
from broker.matching.switching.scanning import scanned
from broker.matching.switching.term import Form, Term, Terms

#: A comparison on bitmaps takes some 3 us, an evaluation by lxml some 15 us, and a parse before the
#: first of them some 30 us.
FREE_COMPARISONS = 10
WORTH = 6


#: The value of a source in a document.
ValueOf: TypeAlias = Callable[[Source], Any]


class Always:
    """Every member matches every document of the shape."""

    def __init__(self, family: Family, decided: bool) -> None:
        self.family = family
        self.decided = decided
        """Whether members found match for certain; else each is to be evaluated (F6)."""

    def holds(self, member: Member, value_of: ValueOf) -> bool:
        """Whether a member matches, or may match, a document with these values."""
        return True

    def prepare(self, most: int) -> int:
        """Get ready, with up to so many members; how many it took."""
        return 0

    @property
    def is_ready(self) -> bool:
        """Whether all members are to be found."""
        return True

    def waiting(self, value_of: ValueOf) -> list[Member] | None:
        """Those that match, or may match, of the members that are not to be found yet.

        None if to find them out takes more than to get ready.
        """
        return []

    def rows(self, batch: Batch) -> Sequence[tuple[int, Sequence[Member]]]:
        """All members in all rows."""
        members = list(self.family.members)
        return [(row, members) for row in range(batch.size)]


class Indexed:
    """Members for which one of several conjunctions holds."""

    def __init__(self, family: Family, decided: bool, found: list[Term]) -> None:
        self.family = family
        self.decided = decided
        """See `Always`, here and below."""
        self.terms = found
        self._projections: dict[Form, Projection] = {
            form: family.projection(form.holes, form.signature)
            for form in dict.fromkeys(term.form for term in found)
        }

    def holds(self, member: Member, value_of: ValueOf) -> bool:
        """See `Always`."""
        holes, literals = self.family.template.parameters, member.literals
        return any(
            all(
                holes[hole].test(value_of(source), literals[hole])
                for hole, source in zip(term.form.holes, term.sources, strict=True)
            )
            and all(map(value_of, term.checks))
            for term in self.terms
        )

    def projection(self, term: Term) -> Projection:
        """The family's members by what the term compares."""
        return self._projections[term.form]

    def prepare(self, most: int) -> int:
        """See `Always`."""
        taken = 0
        for projection in self._projections.values():
            taken += projection.fill(most - taken)
        return taken

    @property
    def is_ready(self) -> bool:
        """See `Always`."""
        return not any(projection.waiting for projection in self._projections.values())

    def waiting(self, value_of: ValueOf) -> list[Member] | None:
        """See `Always`."""
        found: list[Member] = []
        for form, projection in self._projections.items():
            if not projection.waiting:
                continue
            formula = any_of(_formula(term) for term in self.terms if term.form is form)
            holes = self.family.template.parameters
            hits = scanned(formula, holes, projection.waiting, value_of)
            if hits is None:
                return None
            found += hits
        return found


class Bitmaps:
    """Members for which a formula holds that has negations, or holes with several values.

    Few members in a long formula are cheaper to evaluate than to look up: then all may match.
    """

    def __init__(self, family: Family, decided: bool, formula: Formula) -> None:
        self.family = family
        self._formula = formula
        self._decided = decided
        self._comparisons = sum(1 for _ in iterate_sources(formula))
        self.is_ready = False
        """See `Always`, here and below."""

    def holds(self, member: Member, value_of: ValueOf) -> bool:
        """See `Always`."""
        return evaluate_formula(
            self._formula, self.family.template.parameters, member.literals, value_of
        )

    def prepare(self, most: int) -> int:
        """See `Always`."""
        taken = self.family.members.number_members(most)
        self.is_ready = not self.family.members.unnumbered
        return taken

    def waiting(self, value_of: ValueOf) -> list[Member] | None:
        """See `Always`."""
        waiting = [] if self._is_dear else self.family.members.unnumbered
        return scanned(self._formula, self.family.template.parameters, waiting, value_of)

    @property
    def decided(self) -> bool:
        """See `Always`."""
        return self._decided and not self._is_dear

    @property
    def _is_dear(self) -> bool:
        return self._comparisons > FREE_COMPARISONS + WORTH * len(self.family.members)

    def rows(self, batch: Batch) -> Sequence[tuple[int, Sequence[Member]]]:
        """The formula, row by row."""
        found: list[tuple[int, Sequence[Member]]] = []
        members = self.family.members
        if self._is_dear:
            everyone = list(members)
            return [(row, everyone) for row in range(batch.size)]
        for row in range(batch.size):
            bits = self._bits(self._formula, batch, row)
            if bits:
                found.append((row, members.select_members(bits)))
        return found

    def _bits(self, formula: Formula, batch: Batch, row: int) -> int:
        members = self.family.members
        match formula:
            case Atom(parameter=hole, source=source):
                return members.match_bitmap(hole, batch.column(source)[row])
            case BooleanAtom(source=source):
                return members.full_bitmap if batch.column(source)[row] else 0
            case Not(part=part):
                return members.full_bitmap & ~self._bits(part, batch, row)
            case And(parts=parts):
                bits = members.full_bitmap
                for part in parts:
                    bits &= self._bits(part, batch, row)
                    if not bits:
                        break
                return bits
            case Or(parts=parts):
                bits = 0
                for part in parts:
                    bits |= self._bits(part, batch, row)
                return bits
            case TruthValue():
                return members.full_bitmap if formula is TRUE else 0


Binding: TypeAlias = Always | Indexed | Bitmaps


def _formula(term: Term) -> Formula:
    compared = zip(term.form.holes, term.sources, strict=True)
    return all_of(
        [Atom(*pair) for pair in compared] + [BooleanAtom(check) for check in term.checks]
    )


def bind(family: Family, formula: Formula, terms: Terms) -> Binding | None:
    """The plan for a formula, None if no document of the shape can match."""
    decided = is_decided(formula)
    if not decided:
        formula = necessary_condition(formula)
    if formula is TruthValue.FALSE:
        return None
    if formula is TRUE:
        return Always(family, decided)
    found = terms.of(family.template, formula, weaken=not decided)
    if found is not None:
        return Indexed(family, decided, found)
    return Bitmaps(family, decided, formula)
