"""Which of many queries of one template match a document, before an index has them.

Each comparison of the formula is made with all of them at once, or with those that the others
leave. It is given up where it takes more than to put the queries into an index.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain
from typing import Any

from broker.matching.index.member import Member
from broker.matching.index.parameter import Operator, Parameter
from broker.matching.partial.formula import (
    TRUE,
    And,
    Atom,
    BooleanAtom,
    Formula,
    Not,
    Or,
    TruthValue,
)
from broker.matching.partial.source import Source

#: How often each of the members may be compared. A comparison takes some 50 ns, and to put a member
#: into an index, which is done but once, from 1 us to 10 us.
MAX_COMPARISONS_A_MEMBER = 16

#: Of several values the one that satisfies whatever any of them does.
_STRONGEST_VALUE: dict[Operator, Callable[[Iterable[Any]], Any]] = {
    Operator.LESS: min,
    Operator.LESS_EQUAL: min,
    Operator.GREATER: max,
    Operator.GREATER_EQUAL: max,
}


class _TooManyComparisons(Exception):
    """More comparisons than were allowed."""


def scan_members(
    formula: Formula,
    holes: Sequence[Parameter],
    members: Collection[Member],
    value_of: Callable[[Source], Any],
) -> list[Member] | None:
    """The members for which a decided formula holds; None if that takes too many comparisons."""
    try:
        return _Scan(holes, value_of, MAX_COMPARISONS_A_MEMBER * len(members)).select(
            formula, list(members)
        )
    except _TooManyComparisons:
        return None


class _Scan:
    """One document's values, and the comparisons that are left."""

    def __init__(
        self, holes: Sequence[Parameter], value_of: Callable[[Source], Any], most: int
    ) -> None:
        self._parameters = holes
        self._value_of = value_of
        self._comparisons_left = most

    def select(self, formula: Formula, members: Sequence[Member]) -> list[Member]:
        """The members for which the formula holds, in their order."""
        match formula:
            case Atom(parameter=hole, source=source):
                return self._select_satisfied(hole, (source,), members)
            case BooleanAtom(source=source):
                return list(members) if self._value_of(source) else []
            case Not(part=part):
                hits = set(self.select(part, members))
                return [member for member in members if member not in hits]
            case And(parts=parts):
                for part in parts:
                    members = self.select(part, members) if members else ()
                return list(members)
            case Or(parts=parts):
                return self._select_any(parts, members)
            case TruthValue():
                return list(members) if formula is TRUE else []

    def _select_any(self, parts: Sequence[Formula], members: Sequence[Member]) -> list[Member]:
        for hole in _common_parameters(parts):
            members = self._select_satisfied(hole, _sources_of(parts, hole), members)
        hits: set[Member] = set()
        left = members
        for part in _group_by_parameter(parts):
            if isinstance(part, tuple):
                hole, sources = part
                more = self._select_satisfied(hole, sources, left)
            else:
                more = self.select(part, left)
            if more:
                hits.update(more)
                left = [member for member in left if member not in hits]
            if not left:
                break
        return [member for member in members if member in hits]

    def _select_satisfied(
        self, at: int, sources: Sequence[Source], members: Sequence[Member]
    ) -> list[Member]:
        """The members whose hole one of the sources' values satisfies."""
        hole = self._parameters[at]
        values = list(dict.fromkeys(map(self._value_of, sources)))
        if len(values) > 1 and (hole.is_equality or hole.is_threshold):
            # NaN equals nothing and is beyond nothing.
            values = [value for value in values if value == value]
            if hole.is_equality:
                self._count_comparisons(len(members))
                wanted = set(values)
                return [member for member in members if member.literals[at] in wanted]
            values = [_STRONGEST_VALUE[hole.operator](values)] if values else []
        self._count_comparisons(len(members) * len(values))
        test = hole.test
        found = [[m for m in members if test(value, m.literals[at])] for value in values]
        if len(found) == 1:
            return found[0]
        either = set(chain.from_iterable(found))
        return [member for member in members if member in either]

    def _count_comparisons(self, comparisons: int) -> None:
        self._comparisons_left -= comparisons
        if self._comparisons_left < 0:
            raise _TooManyComparisons


def _sources_of(parts: Iterable[Formula], hole: int) -> list[Source]:
    """What the hole is compared with, in whichever of the parts."""
    return [atom.source for part in parts for atom in _atoms(part) if atom.parameter == hole]


def _atoms(part: Formula) -> list[Atom]:
    """The comparisons without which a part does not hold."""
    if isinstance(part, Atom):
        return [part]
    return [each for each in part.parts if isinstance(each, Atom)] if isinstance(part, And) else []


def _common_parameters(parts: Sequence[Formula]) -> list[int]:
    """The holes that are compared in every part, if that is not all that there is to the parts."""
    if all(isinstance(part, Atom) for part in parts):
        return []
    holes = [{atom.parameter for atom in _atoms(part)} for part in parts]
    return sorted(set.intersection(*holes))


def _group_by_parameter(parts: Sequence[Formula]) -> list[Formula | tuple[int, list[Source]]]:
    """The parts, with those together that compare one hole."""
    by_hole: dict[int, list[Source]] = {}
    others: list[Formula | tuple[int, list[Source]]] = []
    for part in parts:
        if isinstance(part, Atom):
            by_hole.setdefault(part.parameter, []).append(part.source)
        else:
            others.append(part)
    return [*by_hole.items(), *others]
