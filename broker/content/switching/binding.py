"""A family bound to a shape: which of its members a document of that shape matches.

What the partial evaluator left of the template becomes one of three plans. A conjunction of
comparisons asks the family's index for all holes at once; several of them are asked in turn. Any
other formula is evaluated on bitmaps of members. And what is true of the shape needs no values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from broker.content.index.member import Member
from broker.content.index.members import Members
from broker.content.partial.formula import (
    TRUE,
    And,
    Atom,
    Check,
    Conjunction,
    Formula,
    Known,
    Not,
    Or,
    alternatives,
    is_decided,
    possible,
    sources,
    weaker,
)
from broker.content.partial.source import Computed, Constant, Source
from broker.content.switching.batch import Batch
from broker.content.switching.family import Family
from broker.content.switching.projection import Part, Projection

#: Conjunctions that are asked one after the other; a formula of more is evaluated on bitmaps.
MAX_CONJUNCTIONS = 512
#: A comparison on bitmaps takes some 3 us, an evaluation by lxml some 15 us, and a parse before the
#: first of them some 30 us.
FREE_COMPARISONS = 10
WORTH = 6


class Binding(Protocol):
    """What a shape needs to know of a family."""

    family: Family
    formula: Formula
    """When a member matches, or may match; decided."""

    @property
    def decided(self) -> bool:
        """Whether members found match for certain; else each is to be evaluated (F6)."""

    def rows(self, batch: Batch) -> Sequence[tuple[int, Sequence[Member]]]:
        """Rows of the batch with the members that match, or may match; a row may come again."""


def bind(family: Family, formula: Formula) -> Binding | None:
    """The plan for a formula, None if no document of the shape can match."""
    decided = is_decided(formula)
    formula = possible(formula)
    if formula is Known.FALSE:
        return None
    if formula is TRUE:
        return Always(family, decided, formula)
    read = alternatives if decided else weaker
    conjunctions = read(formula, MAX_CONJUNCTIONS)
    if conjunctions is not None:
        lookups = [_lookup(family, conjunction) for conjunction in conjunctions]
        if all(lookup is not None for lookup in lookups):
            found = [lookup for lookup in lookups if lookup is not None]
            return Lookups(family, decided, formula, found)
    return Bitmaps(family, decided, formula)


class Always:
    """Every member matches every document of the shape."""

    def __init__(self, family: Family, decided: bool, formula: Formula) -> None:
        self.family = family
        self.decided = decided
        self.formula = formula

    def rows(self, batch: Batch) -> Sequence[tuple[int, Sequence[Member]]]:
        """All members in all rows."""
        members = list(self.family.members)
        return [(row, members) for row in range(batch.size)]


class _Lookup:
    """One conjunction: holes with their sources, and checks that are the same for all members."""

    __slots__ = ("_checks", "_family", "_index", "_key", "_projection", "_sources")

    def __init__(self, family: Family, sources: dict[int, Source], checks: list[Computed]) -> None:
        fixed = {
            hole: source.value
            for hole, source in sorted(sources.items())
            if isinstance(source, Constant) and family.template.holes[hole].equality
        }
        open_holes = tuple(hole for hole in sorted(sources) if hole not in fixed)
        self._family = family
        self._key = tuple(fixed.values())
        self._sources = [sources[hole] for hole in open_holes]
        self._checks = checks
        self._projection: Projection | None = None
        if len(open_holes) < len(family.template.holes):
            self._projection = family.projection(tuple(fixed), open_holes)
        self._index: Members | Part | None = None

    def settle(self) -> bool:
        """Get ready for the members as they are now; whether any of them can be found.

        None can where no member has the literals that equal the constants.
        """
        if self._projection is None:
            self._index = self._family.members
        else:
            self._index = self._projection.part(self._key)
        return self._index is not None

    def rows(self, batch: Batch) -> Sequence[tuple[int, Sequence[Member]]]:
        """What the index finds."""
        assert self._index is not None
        columns = [batch.column(source) for source in self._sources]
        hits = self._index.find_rows(columns, batch.size, batch.known)
        if hits and self._checks:
            passed = [batch.column(check) for check in self._checks]
            return [hit for hit in hits if all(column[hit[0]] for column in passed)]
        return hits


class Lookups:
    """Members for which one of several conjunctions holds."""

    def __init__(
        self, family: Family, decided: bool, formula: Formula, lookups: list[_Lookup]
    ) -> None:
        self.family = family
        self.decided = decided
        self.formula = formula
        self._lookups = lookups
        # Those that any member can satisfy, as of a version of the members.
        self._wanted: list[_Lookup] = []
        self._version = -1

    def rows(self, batch: Batch) -> Sequence[tuple[int, Sequence[Member]]]:
        """What the index finds."""
        version = self.family.members.version
        if self._version != version:
            self._version = version
            self._wanted = [lookup for lookup in self._lookups if lookup.settle()]
        if len(self._wanted) == 1:
            return self._wanted[0].rows(batch)
        return [hit for lookup in self._wanted for hit in lookup.rows(batch)]


class Bitmaps:
    """Members for which a formula holds that has negations, or holes with several values.

    Few members in a long formula are cheaper to evaluate than to look up: then all may match.
    """

    def __init__(self, family: Family, decided: bool, formula: Formula) -> None:
        self.family = family
        self.formula = formula
        self._decided = decided
        self._comparisons = sum(1 for _ in sources(formula))

    @property
    def decided(self) -> bool:
        """See `Binding`."""
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
            bits = self._bits(self.formula, batch, row)
            if bits:
                found.append((row, members.members_of(bits)))
        return found

    def _bits(self, formula: Formula, batch: Batch, row: int) -> int:
        members = self.family.members
        match formula:
            case Atom(hole=hole, source=source):
                return members.bits(hole, batch.column(source)[row])
            case Check(source=source):
                return members.everyone if batch.column(source)[row] else 0
            case Not(part=part):
                return members.everyone & ~self._bits(part, batch, row)
            case And(parts=parts):
                bits = members.everyone
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
            case Known():
                return members.everyone if formula is TRUE else 0


def _lookup(family: Family, conjunction: Conjunction) -> _Lookup | None:
    """The conjunction as a lookup; None if it compares two values with one hole."""
    sources: dict[int, Source] = {}
    checks = []
    for part in conjunction:
        if isinstance(part, Check):
            checks.append(part.source)
        elif sources.setdefault(part.hole, part.source) != part.source:
            return None
    return _Lookup(family, sources, checks)
