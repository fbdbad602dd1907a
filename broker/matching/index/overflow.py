"""Overflow of an index: members that fit nowhere else, in a bitmap index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from broker.matching.index.bitmap_index import BitmapIndex
from broker.matching.index.member import Member
from broker.matching.index.parameter import Parameter


class Overflow:
    """A bitmap index that is created with the first member. Its members have a `partition`."""

    __slots__ = ("_parameters", "_index")

    def __init__(self, parameters: Mapping[int, Parameter]) -> None:
        self._parameters = parameters
        self._index: BitmapIndex | None = None

    def __len__(self) -> int:
        return 0 if self._index is None else self._index.size

    def list_members(self) -> list[Member]:
        return [] if self._index is None else self._index.list_members()

    def add(self, member: Member) -> None:
        if self._index is None:
            self._index = BitmapIndex(self._parameters)
        self._index.add(member)

    def discard(self, member: Member) -> bool:
        if self._index is None or member.partition is None:
            return False
        self._index.remove(member)
        return True

    def match_rows(
        self, columns: Sequence[Sequence[Any]], rows: int
    ) -> list[tuple[int, list[Member]]]:
        return self._index.match_rows(columns, rows) if self._index else []
