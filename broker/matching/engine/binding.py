"""A family bound to a shape: finds the members that match a document of the shape.

Shared indexes answer conjunctions of comparisons. Other formulas are evaluated on bitmaps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from broker.matching.engine.distinct_query import DistinctQuery
from broker.matching.engine.index_conjunction import (
    ConjunctionForm,
    ConjunctionReader,
    IndexConjunction,
)
from broker.matching.engine.member_scan import scan_members
from broker.matching.engine.query_family import IndexedMembers, QueryFamily
from broker.matching.index.member import Member
from broker.matching.partial.evaluation_input import EvaluationInput
from broker.matching.partial.evaluator import MAX_VISITS, evaluate_template
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
from broker.matching.partial.plain_path import find_rows
from broker.matching.partial.source import Computed, Constant, Slot, Source
from broker.matching.partial.work_budget import WorkBudget

#: A comparison on bitmaps takes some 3 us, an evaluation by lxml 15 us, and the parse before the
#: first evaluation 30 us.
FREE_COMPARISONS = 10
FREE_COMPARISONS_A_MEMBER = 6


#: Returns the value of a source in a document.
ValueOf: TypeAlias = Callable[[Source], Any]


class ShapeBatch:
    """Slot values of documents of one shape, and their matches. Computed columns are stored."""

    __slots__ = ("_columns", "_slots", "index_cache", "matching", "size", "undecided")

    def __init__(self, values: Sequence[tuple[bytes, ...]]) -> None:
        self.size = len(values)
        self._slots = list(zip(*values, strict=True))
        self._columns: dict[Source, Any] = {}
        self.matching: list[list[Member] | None] = [None] * self.size
        """The matching members of each row; None for none. One may occur twice."""
        self.undecided: dict[int, list[DistinctQuery]] = {}
        """Queries that may match, by row."""
        self.index_cache: dict[Any, Any] = {}

    def column(self, source: Source) -> Sequence[Any]:
        if isinstance(source, Slot):
            return self._slots[source.number]
        found = self._columns.get(source)
        if found is None:
            if isinstance(source, Computed):
                columns = [self.column(argument) for argument in source.arguments]
                found = list(map(source.function, *columns))
            else:
                assert isinstance(source, Constant)
                found = [source.value] * self.size
            self._columns[source] = found
        return found


class AlwaysBinding:
    """Binding of a family whose members all match every document of the shape."""

    def __init__(self, family: QueryFamily, decided: bool) -> None:
        self.family = family
        self.is_decided = decided
        """True if members that are found match. Otherwise each must be evaluated (F6)."""

    def matches_member(self, member: Member, value_of: ValueOf) -> bool:
        """Return True if a member matches, or may match, such a document."""
        return True

    def prepare_members(self, limit: int) -> int:
        """Add up to `limit` members to the look-up; return their number."""
        return 0

    @property
    def is_ready(self) -> bool:
        """Return True if the look-up contains all members."""
        return True

    def scan_unprepared(self, value_of: ValueOf) -> list[Member] | None:
        """Return the members outside the look-up that match or may match.

        None if it is faster to add them to the look-up.
        """
        return []

    def match_rows(self, batch: ShapeBatch) -> Sequence[tuple[int, Sequence[Member]]]:
        members = list(self.family.members)
        return [(row, members) for row in range(batch.size)]


class IndexedBinding:
    def __init__(
        self, family: QueryFamily, decided: bool, conjunctions: list[IndexConjunction]
    ) -> None:
        self.family = family
        self.is_decided = decided
        """See `AlwaysBinding`, here and below."""
        self.conjunctions = conjunctions
        self._indexed_members: dict[ConjunctionForm, IndexedMembers] = {
            form: family.indexed_members(form.parameters, form.signature)
            for form in dict.fromkeys(conjunction.form for conjunction in conjunctions)
        }

    def matches_member(self, member: Member, value_of: ValueOf) -> bool:
        parameters, literals = self.family.template.parameters, member.literals
        return any(
            all(
                parameters[parameter].test(value_of(source), literals[parameter])
                for parameter, source in zip(
                    conjunction.form.parameters, conjunction.sources, strict=True
                )
            )
            and all(map(value_of, conjunction.checks))
            for conjunction in self.conjunctions
        )

    def members_for(self, conjunction: IndexConjunction) -> IndexedMembers:
        return self._indexed_members[conjunction.form]

    def prepare_members(self, limit: int) -> int:
        prepared = 0
        for members in self._indexed_members.values():
            prepared += members.index_members(limit - prepared)
        return prepared

    @property
    def is_ready(self) -> bool:
        return not any(members.unindexed for members in self._indexed_members.values())

    def scan_unprepared(self, value_of: ValueOf) -> list[Member] | None:
        matching: list[Member] = []
        for form, members in self._indexed_members.items():
            if not members.unindexed:
                continue
            formula = any_of(
                _to_formula(conjunction)
                for conjunction in self.conjunctions
                if conjunction.form is form
            )
            parameters = self.family.template.parameters
            hits = scan_members(formula, parameters, members.unindexed, value_of)
            if hits is None:
                return None
            matching += hits
        return matching


class BitmapBinding:
    """Binding for formulas with negations, or with several values of one parameter.

    With few members lxml is faster for a long formula. Then all members are candidates.
    """

    def __init__(self, family: QueryFamily, decided: bool, formula: Formula) -> None:
        self.family = family
        self._formula = formula
        self._is_formula_decided = decided
        self._comparisons = sum(1 for _ in iterate_sources(formula))
        self.is_ready = False
        """See `AlwaysBinding`, here and below."""

    def matches_member(self, member: Member, value_of: ValueOf) -> bool:
        return evaluate_formula(
            self._formula, self.family.template.parameters, member.literals, value_of
        )

    def prepare_members(self, limit: int) -> int:
        prepared = self.family.members.number_members(limit)
        self.is_ready = not self.family.members.unnumbered
        return prepared

    def scan_unprepared(self, value_of: ValueOf) -> list[Member] | None:
        unprepared = [] if self._is_expensive else self.family.members.unnumbered
        return scan_members(self._formula, self.family.template.parameters, unprepared, value_of)

    @property
    def is_decided(self) -> bool:
        return self._is_formula_decided and not self._is_expensive

    @property
    def _is_expensive(self) -> bool:
        return self._comparisons > FREE_COMPARISONS + FREE_COMPARISONS_A_MEMBER * len(
            self.family.members
        )

    def match_rows(self, batch: ShapeBatch) -> Sequence[tuple[int, Sequence[Member]]]:
        matching: list[tuple[int, Sequence[Member]]] = []
        members = self.family.members
        if self._is_expensive:
            all_members = list(members)
            return [(row, all_members) for row in range(batch.size)]
        for row in range(batch.size):
            bits = self._match_row(self._formula, batch, row)
            if bits:
                matching.append((row, members.select_members(bits)))
        return matching

    def _match_row(self, formula: Formula, batch: ShapeBatch, row: int) -> int:
        members = self.family.members
        match formula:
            case Atom(parameter=parameter, source=source):
                return members.match_bitmap(parameter, batch.column(source)[row])
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


def _to_formula(conjunction: IndexConjunction) -> Formula:
    compared = zip(conjunction.form.parameters, conjunction.sources, strict=True)
    return all_of(
        [Atom(*pair) for pair in compared] + [BooleanAtom(check) for check in conjunction.checks]
    )


def bind_formula(
    family: QueryFamily, formula: Formula, reader: ConjunctionReader
) -> Binding | None:
    """Return the plan for a formula; None if no document of the shape can match."""
    decided = is_decided(formula)
    if not decided:
        formula = necessary_condition(formula)
    if formula is TruthValue.FALSE:
        return None
    if formula is TRUE:
        return AlwaysBinding(family, decided)
    conjunctions = reader.read_formula(family.template, formula, weaken=not decided)
    if conjunctions is not None:
        return IndexedBinding(family, decided, conjunctions)
    return BitmapBinding(family, decided, formula)


#: Maximum size of a family for which only the plain path is looked up. It ignores parts that shapes
#: seldom decide. lxml evaluates the members that the path leaves, which is cheaper for so few.
MAX_PLAIN_MEMBERS = 256


def bind_family(
    family: QueryFamily,
    evaluation_input: EvaluationInput,
    reader: ConjunctionReader,
    make_work: Callable[[], WorkBudget] = lambda: WorkBudget(MAX_VISITS),
) -> tuple[Binding | None, int]:
    """Return the binding, None if no document of the shape can match, and the number of visits."""
    plain_part = family.plain_part
    if plain_part is not None and (plain_part.is_whole or len(family.members) <= MAX_PLAIN_MEMBERS):
        work = make_work()
        conjunctions = reader.read_rows(
            family.template,
            plain_part.key,
            lambda: find_rows(plain_part.path, evaluation_input, work),
        )
        if conjunctions is not None:
            return _bind_conjunctions(family, conjunctions, decided=plain_part.is_whole), work.spent
    decision = evaluate_template(family.template, evaluation_input, make_work())
    return bind_formula(family, decision.formula, reader), decision.visits


def _bind_conjunctions(
    family: QueryFamily, conjunctions: list[IndexConjunction], *, decided: bool
) -> Binding | None:
    if not conjunctions:
        return None
    if not family.template.parameters or not conjunctions[0].form.parameters:
        # The path exists, and has no comparisons.
        return AlwaysBinding(family, decided)
    return IndexedBinding(family, decided, conjunctions)
