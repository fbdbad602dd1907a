"""What the index must answer, said as plainly as possible."""

from __future__ import annotations

from collections.abc import Sequence

from broker.content.index.holes import Hole, Literal, Operator
from broker.content.index.member import Member
from broker.content.index.members import Members


def satisfies(operator: Operator, value: Literal, literal: Literal) -> bool:
    """One comparison."""
    if isinstance(value, bytes) and isinstance(literal, bytes):
        text = {
            Operator.EQUAL: value == literal,
            Operator.NOT_EQUAL: value != literal,
            Operator.STARTS_WITH: value[: len(literal)] == literal,
            Operator.CONTAINS: value.find(literal) >= 0,
        }
        return text[operator]
    assert isinstance(value, float) and isinstance(literal, float)
    if value != value or literal != literal:
        return operator is Operator.NUMBER_NOT_EQUAL
    number = {
        Operator.NUMBER_EQUAL: value == literal,
        Operator.NUMBER_NOT_EQUAL: value != literal,
        Operator.LESS: value < literal,
        Operator.LESS_EQUAL: value <= literal,
        Operator.GREATER: value > literal,
        Operator.GREATER_EQUAL: value >= literal,
    }
    return number[operator]


def satisfied(
    holes: Sequence[Hole], values: Sequence[Literal], literals: Sequence[Literal]
) -> bool:
    """A whole member."""
    return all(
        satisfies(hole.operator, value, literal)
        for hole, value, literal in zip(holes, values, literals, strict=True)
    )


def find(members: Members, values: Sequence[Literal]) -> list[Member]:
    """The members that one value for each hole satisfies, in no particular order."""
    columns: dict[int, list[Literal]] = {}
    # Equal values in one column, as holes of one subject have them.
    row = [columns.setdefault(id(value), [value]) for value in values]
    return [member for _, found in members.find_rows(row, 1) for member in found]
