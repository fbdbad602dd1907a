"""Cumulative bitmaps: one bisection finds the bitmap of a value."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

from broker.matching.index.parameter import Operator

_BISECTIONS: dict[Operator, Callable[[list[float], float], int]] = {
    Operator.GREATER: bisect_left,
    Operator.GREATER_EQUAL: bisect_right,
    Operator.LESS: bisect_right,
    Operator.LESS_EQUAL: bisect_left,
}
_RISING = frozenset({Operator.GREATER, Operator.GREATER_EQUAL})


class CumulativeBitmaps:
    """Bitmaps of groups that are sorted by bound, united from one side.

    Rising (`value > bound`): `marks[i]` is the least bound of group i, and `unions[i]` unites the
    first i groups. A value matches a part of each group whose mark is below it. Falling (`value <
    bound`) is the mirror image: marks are the greatest bounds, and `unions[i]` unites the groups
    from i on. There is one more union than marks.
    """

    __slots__ = ("bisect", "marks", "is_rising", "unions")

    def __init__(self, operator: Operator) -> None:
        self.bisect = _BISECTIONS[operator]
        self.is_rising = operator in _RISING
        self.marks: list[float] = []
        self.unions: list[int] = [0]

    def load(self, marks: Sequence[float], bitmaps: Sequence[int]) -> None:
        self.marks = list(marks)
        self.unions = [0]
        for bits in bitmaps if self.is_rising else reversed(bitmaps):
            self.unions.append(self.unions[-1] | bits)
        if not self.is_rising:
            self.unions.reverse()

    def match_column(self, values: Sequence[float]) -> list[int]:
        """Return for each value the union of the groups that it matches in part. NaN matches
        nothing.
        """
        find, marks, unions = self.bisect, self.marks, self.unions
        return [unions[find(marks, value)] if value == value else 0 for value in values]
