"""Members for which an index has no better place: by bitmaps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from broker.matching.index.holes import Hole
from broker.matching.index.member import Member
from broker.matching.index.shrinking import ShrinkingDict
from broker.matching.index.table import Table


class Rest:
    """A table that is made when the first member is put aside."""

    __slots__ = ("_holes", "_members", "_table")

    def __init__(self, holes: Mapping[int, Hole]) -> None:
        self._holes = holes
        self._members = ShrinkingDict[Member, None]()
        self._table: Table | None = None

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members)

    def add(self, member: Member) -> None:
        """Put a member aside."""
        self._members[member] = None
        if self._table is None:
            self._table = Table(self._holes)
        self._table.add(member)

    def discard(self, member: Member) -> bool:
        """Forget a member; whether it was here."""
        if self._table is None or member not in self._members:
            return False
        del self._members[member]
        self._table.remove(member)
        return True

    def find_rows(
        self, columns: Sequence[Sequence[Any]], rows: int
    ) -> list[tuple[int, list[Member]]]:
        """The members that each row satisfies."""
        if self._table is None or not self._members:
            return []
        return self._table.find_rows(columns, rows)
