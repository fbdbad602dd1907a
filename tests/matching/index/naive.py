"""Naive matching, as the expected result of the index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from broker.matching.index.member import Member
from broker.matching.index.parameter import Literal, Operator, Parameter
from broker.matching.index.shared_index import IndexPool, SharedIndex, Signature
from broker.matching.index.template_members import TemplateMembers

TEXTS: Mapping[Operator, Callable[[bytes, bytes], bool]] = {
    Operator.EQUAL: eq,
    Operator.NOT_EQUAL: ne,
    Operator.STARTS_WITH: bytes.startswith,
    Operator.CONTAINS: bytes.__contains__,
}
NUMBERS: Mapping[Operator, Callable[[float, float], bool]] = {
    Operator.NUMBER_EQUAL: eq,
    Operator.NUMBER_NOT_EQUAL: ne,
    Operator.LESS: lt,
    Operator.LESS_EQUAL: le,
    Operator.GREATER: gt,
    Operator.GREATER_EQUAL: ge,
}


def satisfies(operator: Operator, value: Literal, literal: Literal) -> bool:
    """Compare one value with one literal."""
    if isinstance(value, bytes) and isinstance(literal, bytes):
        return TEXTS[operator](value, literal)
    assert isinstance(value, float) and isinstance(literal, float)
    if value != value or literal != literal:
        return operator is Operator.NUMBER_NOT_EQUAL
    return NUMBERS[operator](value, literal)


def satisfies_all(
    parameters: Sequence[Parameter], values: Sequence[Literal], literals: Sequence[Literal]
) -> bool:
    """Compare all values of a row with a member's literals."""
    return all(
        satisfies(parameter.operator, value, literal)
        for parameter, value, literal in zip(parameters, values, literals, strict=True)
    )


class IndexedMembers:
    """The members of one template, with bitmaps and an index of all parameters.

    Results contain the members themselves, not their postings.
    """

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self.members = TemplateMembers(parameters, owner=self)
        self.index: SharedIndex = IndexPool().get_index(
            Signature(tuple(parameters), (0,) * len(parameters))
        )
        self._postings: dict[Member, Member] = {}

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self.members)

    def add(self, literals: Sequence[Literal]) -> Member:
        member = self.members.add(literals)
        if member not in self._postings:
            self._postings[member] = self.index.add(member.literals, member)
        return member

    def remove(self, member: Member) -> None:
        self.members.remove(member)
        self.index.remove(self._postings.pop(member))

    def match_rows(
        self, columns: Sequence[Sequence[Any]], rows: int
    ) -> list[tuple[int, list[Member]]]:
        return _entries(self.index.match_rows(columns, rows))

    def match_rows_with(
        self, constants: Mapping[int, Literal], columns: Sequence[Sequence[Any]], rows: int
    ) -> list[tuple[int, list[Member]]]:
        """Match rows that have these constants in common."""
        lookup = self.index.lookup_for(constants)
        if lookup.matcher is None:
            return []
        needed = [column if at in lookup.positions else () for at, column in enumerate(columns)]
        return _entries(lookup.matcher.match_rows(needed, rows))


def _entries(
    found: Sequence[tuple[int, Sequence[Member]]],
) -> list[tuple[int, list[Member]]]:
    return [(row, [posting.entry for posting in postings]) for row, postings in found]


def find(indexed: IndexedMembers, values: Sequence[Literal]) -> list[Member]:
    """Return the members that match one row, unordered."""
    columns = [[value] for value in values]
    return [member for _, found in indexed.match_rows(columns, 1) for member in found]
