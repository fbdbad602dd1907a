"""Up to `SHEET_SIZE` members, numbered, with an index for each hole that the table looks at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import and_
from typing import Any, cast

from broker.matching.index.bitmap import NUMBERS, SHEET_SIZE, take
from broker.matching.index.holes import Hole, Operator
from broker.matching.index.member import Member
from broker.matching.index.needles import Needles
from broker.matching.index.texts import Equal, HoleIndex, NotEqual, Prefixes, Substrings
from broker.matching.index.thresholds import Thresholds

#: A sheet is parted where each side gets at least this share of it.
_LEAST_SHARE = 8


class Sheet:
    """Members of one table that share bitmaps. `needles` has those of each `contains` hole."""

    __slots__ = ("_free", "_indexes", "_slots", "_thresholds", "everyone")

    def __init__(self, holes: Mapping[int, Hole], needles: Mapping[int, Needles]) -> None:
        self._slots: list[Member | None] = []
        self._free: list[int] = []
        self.everyone = 0
        self._indexes: dict[int, HoleIndex] = {}
        self._thresholds: dict[int, Thresholds] = {}
        for position, hole in holes.items():
            if hole.threshold:
                thresholds = Thresholds(hole, position, self._slots)
                self._indexes[position] = self._thresholds[position] = thresholds
            else:
                self._indexes[position] = _text_index(hole, needles.get(position))

    @property
    def size(self) -> int:
        """How many members there are."""
        return len(self._slots) - len(self._free)

    @property
    def full(self) -> bool:
        """Whether no member can be added."""
        return not self._free and len(self._slots) == SHEET_SIZE

    def add(self, member: Member) -> None:
        """Number a member; the sheet must not be full."""
        self._seat(member)
        for position, index in self._indexes.items():
            index.add(member.number, member.literals[position])

    def load(self, members: Iterable[Member]) -> None:
        """Number many members at once in an empty sheet that has room for them."""
        for member in members:
            self._seat(member)
        for position, index in self._indexes.items():
            index.load(
                (member.number, member.literals[position]) for member in self._slots if member
            )

    def remove(self, member: Member) -> None:
        """Forget a member; its number is given again."""
        for position, index in self._indexes.items():
            index.remove(member.number, member.literals[position])
        self.everyone ^= 1 << member.number
        member.sheet = None
        if self.everyone:
            self._slots[member.number] = None
            self._free.append(member.number)
        else:
            self._slots.clear()
            self._free.clear()

    def weakest(self, position: int) -> float | None:
        """The bound at a threshold hole that is satisfied whenever any is."""
        return self._thresholds[position].weakest

    def parting(self, after: int) -> tuple[int, float, list[Member]] | None:
        """A hole, a bound there, and the members not below it, to part the sheet in two.

        The holes take turns, beginning behind `after`. None if no bound leaves enough on each side.
        """
        least = self.size // _LEAST_SHARE
        for position in sorted(self._thresholds, key=lambda each: (each <= after, each)):
            middle = self._thresholds[position].middle()
            if middle is not None:
                bound, below = middle
                if least <= below.bit_count() <= self.size - least:
                    return position, bound, self.take(self.everyone ^ below)
        return None

    def bits(self, position: int, value: Any) -> int:
        """Exactly the members that a value satisfies at one hole."""
        return self._indexes[position].bits(value)

    def take(self, bits: int) -> list[Member]:
        """The members of a bitmap."""
        return cast("list[Member]", take(bits, self._slots))

    def find_rows(
        self, columns: Mapping[int, Sequence[Any]], rows: int
    ) -> list[tuple[int, list[Member]]]:
        """The rows, ascending, that satisfy members on all holes of the sheet, and these.

        `columns` has the values by hole, as the indexes want them.
        """
        combined: list[int] | None = None
        for position, index in self._indexes.items():
            column = index.column(columns[position])
            combined = column if combined is None else list(map(and_, combined, column))
        if combined is None:
            combined = [self.everyone] * rows
        for position, thresholds in self._thresholds.items():
            thresholds.narrow(combined, columns[position])
        take = self.take
        return [(row, take(bits)) for row, bits in enumerate(combined) if bits]

    def _seat(self, member: Member) -> None:
        if self._free:
            number = self._free.pop()
            self._slots[number] = member
        else:
            number = NUMBERS[len(self._slots)]
            self._slots.append(member)
        member.sheet, member.number = self, number
        self.everyone |= 1 << number


def _text_index(hole: Hole, needles: Needles | None) -> HoleIndex:
    if needles is not None:
        return Substrings(needles)
    if hole.operator is Operator.STARTS_WITH:
        return Prefixes()
    return Equal() if hole.equality else NotEqual()
