"""Comparison of all members of a template with a document, before an index has them.

It stops where adding the members to an index would be faster.
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

#: Mean number of comparisons per member. A comparison takes some 50 ns. To index a member takes 1
#: us to 10 us, once.
MAX_COMPARISONS_A_MEMBER = 16

#: The value that satisfies a parameter if any of several values does.
_STRONGEST_VALUE: dict[Operator, Callable[[Iterable[Any]], Any]] = {
    Operator.LESS: min,
    Operator.LESS_EQUAL: min,
    Operator.GREATER: max,
    Operator.GREATER_EQUAL: max,
}


class _TooManyComparisons(Exception): ...


def scan_members(
    formula: Formula,
    parameters: Sequence[Parameter],
    members: Collection[Member],
    value_of: Callable[[Source], Any],
) -> list[Member] | None:
    """Return the members for which a decided formula holds; None after too many comparisons."""
    try:
        return _Scan(parameters, value_of, MAX_COMPARISONS_A_MEMBER * len(members)).select(
            formula, list(members)
        )
    except _TooManyComparisons:
        return None


class _Scan:
    def __init__(
        self,
        parameters: Sequence[Parameter],
        value_of: Callable[[Source], Any],
        max_comparisons: int,
    ) -> None:
        self._parameters = parameters
        self._value_of = value_of
        self._comparisons_left = max_comparisons

    def select(self, formula: Formula, members: Sequence[Member]) -> list[Member]:
        match formula:
            case Atom(parameter=parameter, source=source):
                return self._select_satisfied(parameter, (source,), members)
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
        for parameter in _common_parameters(parts):
            members = self._select_satisfied(parameter, _sources_of(parts, parameter), members)
        hits: set[Member] = set()
        remaining = members
        for part in _group_by_parameter(parts):
            if isinstance(part, tuple):
                parameter, sources = part
                found = self._select_satisfied(parameter, sources, remaining)
            else:
                found = self.select(part, remaining)
            if found:
                hits.update(found)
                remaining = [member for member in remaining if member not in hits]
            if not remaining:
                break
        return [member for member in members if member in hits]

    def _select_satisfied(
        self, number: int, sources: Sequence[Source], members: Sequence[Member]
    ) -> list[Member]:
        parameter = self._parameters[number]
        values = list(dict.fromkeys(map(self._value_of, sources)))
        if len(values) > 1 and (parameter.is_equality or parameter.is_threshold):
            # NaN satisfies no equality and no threshold.
            values = [value for value in values if value == value]
            if parameter.is_equality:
                self._count_comparisons(len(members))
                accepted = set(values)
                return [member for member in members if member.literals[number] in accepted]
            values = [_STRONGEST_VALUE[parameter.operator](values)] if values else []
        self._count_comparisons(len(members) * len(values))
        test = parameter.test
        selected = [[m for m in members if test(value, m.literals[number])] for value in values]
        if len(selected) == 1:
            return selected[0]
        matching = set(chain.from_iterable(selected))
        return [member for member in members if member in matching]

    def _count_comparisons(self, comparisons: int) -> None:
        self._comparisons_left -= comparisons
        if self._comparisons_left < 0:
            raise _TooManyComparisons


def _sources_of(parts: Iterable[Formula], parameter: int) -> list[Source]:
    return [atom.source for part in parts for atom in _atoms(part) if atom.parameter == parameter]


def _atoms(part: Formula) -> list[Atom]:
    if isinstance(part, Atom):
        return [part]
    return [each for each in part.parts if isinstance(each, Atom)] if isinstance(part, And) else []


def _common_parameters(parts: Sequence[Formula]) -> list[int]:
    """Return the parameters that every part compares; none for single comparisons."""
    if all(isinstance(part, Atom) for part in parts):
        return []
    numbers = [{atom.parameter for atom in _atoms(part)} for part in parts]
    return sorted(set.intersection(*numbers))


def _group_by_parameter(parts: Sequence[Formula]) -> list[Formula | tuple[int, list[Source]]]:
    by_hole: dict[int, list[Source]] = {}
    others: list[Formula | tuple[int, list[Source]]] = []
    for part in parts:
        if isinstance(part, Atom):
            by_hole.setdefault(part.parameter, []).append(part.source)
        else:
            others.append(part)
    return [*by_hole.items(), *others]
