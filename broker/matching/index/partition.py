"""Partition: up to `PARTITION_SIZE` numbered members, with an index for each parameter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import and_
from typing import Any, cast

from broker.matching.bitmap import NUMBERS, PARTITION_SIZE, select_slots
from broker.matching.index.member import Member
from broker.matching.index.parameter import Operator, Parameter
from broker.matching.index.parameter_index import (
    ContainsIndex,
    EqualIndex,
    NotEqualIndex,
    ParameterIndex,
    StartsWithIndex,
    ThresholdIndex,
)
from broker.matching.index.substring_index import SubstringIndex

#: A split leaves at least one in so many members on each side.
_MIN_SPLIT_SHARE = 8


class Partition:
    """Members of a bitmap index that share bitmaps, and `substrings` by `contains` parameter."""

    __slots__ = ("_free", "_indexes", "_slots", "_thresholds", "full_bitmap")

    def __init__(
        self, parameters: Mapping[int, Parameter], substrings: Mapping[int, SubstringIndex]
    ) -> None:
        self._slots: list[Member | None] = []
        self._free: list[int] = []
        self.full_bitmap = 0
        self._indexes: dict[int, ParameterIndex] = {}
        self._thresholds: dict[int, ThresholdIndex] = {}
        for position, parameter in parameters.items():
            if parameter.is_threshold:
                thresholds = ThresholdIndex(parameter, position, self._slots)
                self._indexes[position] = self._thresholds[position] = thresholds
            else:
                self._indexes[position] = _posting_index(parameter, substrings.get(position))

    @property
    def size(self) -> int:
        return len(self._slots) - len(self._free)

    @property
    def is_full(self) -> bool:
        return not self._free and len(self._slots) == PARTITION_SIZE

    def add(self, member: Member) -> None:
        self._assign_number(member)
        for position, index in self._indexes.items():
            index.add(member.number, member.literals[position])

    def load(self, members: Iterable[Member]) -> None:
        for member in members:
            self._assign_number(member)
        for position, index in self._indexes.items():
            index.load(
                (member.number, member.literals[position]) for member in self._slots if member
            )

    def remove(self, member: Member) -> None:
        for position, index in self._indexes.items():
            index.remove(member.number, member.literals[position])
        self.full_bitmap ^= 1 << member.number
        member.partition = None
        if self.full_bitmap:
            self._slots[member.number] = None
            self._free.append(member.number)
        else:
            self._slots.clear()
            self._free.clear()

    def weakest_bound(self, position: int) -> float | None:
        """Return the bound at a threshold parameter that matches whenever any does."""
        return self._thresholds[position].weakest_bound

    def choose_split(self, after: int) -> tuple[int, float, list[Member]] | None:
        """Choose a parameter and a bound to split at; return the members not below it too.

        The parameters alternate, starting behind `after`. None if a side would have too few
        members.
        """
        least = self.size // _MIN_SPLIT_SHARE
        for position in sorted(self._thresholds, key=lambda each: (each <= after, each)):
            middle = self._thresholds[position].find_middle()
            if middle is not None:
                bound, below = middle
                if least <= below.bit_count() <= self.size - least:
                    return position, bound, self.select_members(self.full_bitmap ^ below)
        return None

    def match_bitmap(self, position: int, value: Any) -> int:
        return self._indexes[position].match_value(value)

    def select_members(self, bits: int) -> list[Member]:
        return cast("list[Member]", select_slots(bits, self._slots))

    def match_rows(
        self, columns: Mapping[int, Sequence[Any]], rows: int
    ) -> list[tuple[int, list[Member]]]:
        """Return matching rows, ascending, with their members. `columns` are for `match_column`."""
        combined: list[int] | None = None
        for position, index in self._indexes.items():
            column = index.match_column(columns[position])
            combined = column if combined is None else list(map(and_, combined, column))
        if combined is None:
            combined = [self.full_bitmap] * rows
        for position, thresholds in self._thresholds.items():
            thresholds.refine(combined, columns[position])
        select_slots = self.select_members
        return [(row, select_slots(bits)) for row, bits in enumerate(combined) if bits]

    def _assign_number(self, member: Member) -> None:
        if self._free:
            number = self._free.pop()
            self._slots[number] = member
        else:
            number = NUMBERS[len(self._slots)]
            self._slots.append(member)
        member.partition, member.number = self, number
        self.full_bitmap |= 1 << number


def _posting_index(parameter: Parameter, substrings: SubstringIndex | None) -> ParameterIndex:
    if substrings is not None:
        return ContainsIndex(substrings)
    if parameter.operator is Operator.STARTS_WITH:
        return StartsWithIndex()
    return EqualIndex() if parameter.is_equality else NotEqualIndex()
