"""Members under one key of an access path: compared one by one while few, indexed when many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, TypeAlias, cast

from broker.content.index.comparison import Compare, comparison
from broker.content.index.grid import Grid
from broker.content.index.holes import Hole, Literal
from broker.content.index.intervals import Intervals
from broker.content.index.member import Member
from broker.content.index.shrinking import ShrinkingDict
from broker.content.index.table import Table
from broker.content.index.windows import windows

#: More members than `_MOST_LISTED` are indexed, less than `_LEAST_INDEXED` a list again; apart, so
#: that a cell on the edge is not rebuilt at every change.
_MOST_LISTED = 8
_LEAST_INDEXED = 4

Crowd: TypeAlias = Table | Grid | Intervals
Cell: TypeAlias = tuple[Member, ...] | Crowd
#: Rows and the members that each satisfies.
Found: TypeAlias = Sequence[tuple[int, Sequence[Member]]]


def crowd(holes: Mapping[int, Hole], members: Iterable[Member] = ()) -> Crowd:
    """An index of many members: by their windows where they have any, else by bitmaps."""
    match len(windows(holes)):
        case 0:
            return Table(holes, members)
        case 1:
            return Intervals(holes, members)
        case _:
            return Grid(holes, members)


class Few:
    """Members that are compared one by one."""

    __slots__ = ("_compare", "_members")

    def __init__(self, compare: Compare, members: tuple[Member, ...]) -> None:
        self._compare = compare
        self._members = members

    def find_rows(
        self,
        columns: Sequence[Sequence[Any]],
        rows: int,
        _known: dict[Any, Any] | None = None,
    ) -> Found:
        """As `AccessPath.find_rows`."""
        found: list[tuple[int, Sequence[Member]]] = []
        self._compare(zip(range(rows), repeat(self._members)), columns, found)
        return found


class Cells:
    """Key -> members, compared on the `remaining` holes (by position) when they are looked up."""

    __slots__ = ("_compare", "_remaining", "by_key", "changes")

    def __init__(self, remaining: Mapping[int, Hole]) -> None:
        self._remaining = remaining
        self._compare = comparison(
            (position, hole.operator) for position, hole in remaining.items()
        )
        #: Keys have no NaN: a value that is NaN would be found by identity.
        self.by_key = ShrinkingDict[Literal | tuple[Literal, ...], Cell]()
        self.changes = 0
        """Rises when `under` would give something else."""

    def add(self, key: Literal | tuple[Literal, ...], member: Member) -> None:
        """File a member under its key."""
        cell = self.by_key.get(key, ())
        if not isinstance(cell, tuple):
            cell.add(member)
            return
        self.changes += 1
        if not self._remaining or len(cell) < _MOST_LISTED:
            self.by_key[key] = (*cell, member)
        else:
            self.by_key[key] = crowd(self._remaining, (*cell, member))

    def remove(self, key: Literal | tuple[Literal, ...], member: Member) -> None:
        """Strike a member."""
        cell = self.by_key[key]
        if not isinstance(cell, tuple):
            cell.remove(member)
            if cell.size < _LEAST_INDEXED:
                self.changes += 1
                self.by_key[key] = tuple(cell.members())
            return
        self.changes += 1
        if len(cell) > 1:
            self.by_key[key] = tuple(each for each in cell if each is not member)
        else:
            del self.by_key[key]

    def under(self, key: Literal | tuple[Literal, ...]) -> Few | Crowd | None:
        """The members under a key, to be found by what remains; None if there are none."""
        cell = self.by_key.get(key)
        return Few(self._compare, cell) if isinstance(cell, tuple) else cell

    def confirmed(
        self,
        hits: Sequence[tuple[int, Cell]],
        columns: Sequence[Sequence[Any]],
        rows: int,
        known: dict[Any, Any] | None,
    ) -> list[tuple[int, Sequence[Member]]]:
        """Of the cells that rows led to, the members that the rows satisfy; in no order of rows."""
        found: list[tuple[int, Sequence[Member]]] = []
        crowds: dict[Crowd, list[int]] = {}
        few: list[tuple[int, tuple[Member, ...]]] = []
        for row, cell in hits:
            members: tuple[Member, ...] | None = None
            if isinstance(cell, tuple):
                members = cell
            elif isinstance(cell, Intervals):
                members = cell.near(columns[cell.at][row])
            if members is None:
                crowds.setdefault(cast(Crowd, cell), []).append(row)
            elif members:
                few.append((row, members))
        self._compare(few, columns, found)
        for crowded, chosen in crowds.items():
            if len(chosen) == rows:
                found += crowded.find_rows(columns, rows, known)
                continue
            some = [
                [column[row] for row in chosen] if position in self._remaining else ()
                for position, column in enumerate(columns)
            ]
            found += [(chosen[at], hit) for at, hit in crowded.find_rows(some, len(chosen))]
        return found
