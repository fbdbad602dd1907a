"""Overflow of an index: members that fit nowhere else, in a bitmap index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from broker.matching.index.bitmap_index import BitmapIndex
from broker.matching.index.member import Member
from broker.matching.index.parameter import Parameter
from broker.matching.index.shrinking_dict import ShrinkingDict


class Overflow:
    """A bitmap index that is created with the first member."""

    __slots__ = ("_parameters", "_members", "_index")

    def __init__(self, parameters: Mapping[int, Parameter]) -> None:
        self._parameters = parameters
        self._members = ShrinkingDict[Member, None]()
        self._index: BitmapIndex | None = None

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members)

    def add(self, member: Member) -> None:
        self._members[member] = None
        if self._index is None:
            self._index = BitmapIndex(self._parameters)
        self._index.add(member)

    def discard(self, member: Member) -> bool:
        if self._index is None or member not in self._members:
            return False
        del self._members[member]
        self._index.remove(member)
        return True

    def match_rows(
        self, columns: Sequence[Sequence[Any]], rows: int
    ) -> list[tuple[int, list[Member]]]:
        if self._index is None or not self._members:
            return []
        return self._index.match_rows(columns, rows)
