"""How the values of a row lead to the members worth comparing (checklist F5, Le Subscribe)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, cast

from broker.content.index.cells import Cells, Found
from broker.content.index.grid import Grid
from broker.content.index.holes import Hole, Literal, Operator
from broker.content.index.member import Member
from broker.content.index.table import Table
from broker.content.index.windows import windows


class AccessPath(Protocol):
    """Members, and the ways to them by the values of the holes."""

    def add(self, member: Member) -> None:
        """Take in a member that is not here."""

    def remove(self, member: Member) -> None:
        """Forget a member that is here."""

    def find_rows(
        self,
        columns: Sequence[Sequence[Any]],
        rows: int,
        known: dict[Any, Any] | None = None,
    ) -> Found:
        """As `Members.find_rows`."""


def access_path(holes: Sequence[Hole], table: Table) -> AccessPath:
    """By a key of equalities and a prefix, else by windows, or by bitmaps of all, in `table`.

    Members of one key that are many are found by windows or bitmaps in turn.
    """
    equalities = [position for position, hole in enumerate(holes) if hole.equality]
    prefixes = [i for i, hole in enumerate(holes) if hole.operator is Operator.STARTS_WITH]
    if equalities or prefixes:
        return ByKey(holes, equalities, prefixes[0] if prefixes else None)
    by_position = dict(enumerate(holes))
    return Grid(by_position) if windows(by_position) else table


class ByKey:
    """A hash of the literals at all holes that ask for equality, and at one of `starts-with`.

    With a prefix, a look-up costs a hash of a value's beginning for each length that prefixes have.
    """

    __slots__ = ("_by_length", "_equalities", "_exact", "_prefix", "_remaining")

    def __init__(
        self, holes: Sequence[Hole], equalities: Sequence[int], prefix: int | None
    ) -> None:
        self._equalities = tuple(equalities)
        self._prefix = prefix
        used = {*equalities, prefix}
        self._remaining = {at: hole for at, hole in enumerate(holes) if at not in used}
        self._exact = not self._remaining
        #: By the length of the prefix; 0 where there is none.
        self._by_length: dict[int, Cells] = {}

    @property
    def has_prefix(self) -> bool:
        """Whether a prefix is part of the key."""
        return self._prefix is not None

    def add(self, member: Member) -> None:
        """Take in a member that is not here."""
        length, key = self._key(member.literals)
        cells = self._by_length.get(length)
        if cells is None:
            cells = self._by_length[length] = Cells(self._remaining)
        cells.add(key, member)

    def remove(self, member: Member) -> None:
        """Forget a member that is here."""
        length, key = self._key(member.literals)
        cells = self._by_length[length]
        cells.remove(key, member)
        if not cells.by_key:
            del self._by_length[length]

    def find_rows(
        self,
        columns: Sequence[Sequence[Any]],
        rows: int,
        known: dict[Any, Any] | None = None,
    ) -> Found:
        """As `Members.find_rows`."""
        found: list[tuple[int, Sequence[Member]]] = []
        for length, cells in self._by_length.items():
            keys = self._keys(columns, length)
            get = cells.by_key.get
            hits = [(row, cell) for row, key in enumerate(keys) if (cell := get(key)) is not None]
            if self._exact:
                # One member has these literals, so no cell is more than a tuple of it.
                found += cast("list[tuple[int, Sequence[Member]]]", hits)
            elif hits:
                found += cells.confirmed(hits, columns, rows, known)
        return found

    def _key(self, literals: Sequence[Literal]) -> tuple[int, Any]:
        """The length of the prefix, and the key: a literal where there is but one part."""
        parts = [literals[position] for position in self._equalities]
        length = 0
        if self._prefix is not None:
            prefix = cast(bytes, literals[self._prefix])
            parts.append(prefix)
            length = len(prefix)
        return length, parts[0] if len(parts) == 1 else tuple(parts)

    def _keys(self, columns: Sequence[Sequence[Any]], length: int) -> Iterable[Any]:
        """The key of each row."""
        parts = [columns[position] for position in self._equalities]
        if self._prefix is not None:
            # The beginning of a shorter value is the value, which is no literal of this length.
            parts.append([value[:length] for value in columns[self._prefix]])
        return parts[0] if len(parts) == 1 else zip(*parts, strict=True)
