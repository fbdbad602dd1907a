"""Members under one key of an access path: compared one by one while few, indexed when many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from broker.matching.index.comparison import comparison
from broker.matching.index.grid import Grid
from broker.matching.index.holes import Hole, Literal
from broker.matching.index.intervals import Intervals
from broker.matching.index.member import Member
from broker.matching.index.shrinking import ShrinkingDict
from broker.matching.index.table import Table
from broker.matching.index.way import Few, Way, Ways
from broker.matching.index.windows import windows

#: More members than `_MOST_LISTED` are indexed, less than `_LEAST_INDEXED` a list again; apart, so
#: that a cell on the edge is not rebuilt at every change.
_MOST_LISTED = 8
_LEAST_INDEXED = 4

#: A literal, or those of several holes.
Key: TypeAlias = Literal | tuple[Literal, ...]
Crowd: TypeAlias = Table | Grid | Intervals
Cell: TypeAlias = tuple[Member, ...] | Crowd


def crowd(holes: Mapping[int, Hole], members: Iterable[Member] = ()) -> Crowd:
    """An index of many members: by their windows where they have any, else by bitmaps."""
    match len(windows(holes)):
        case 0:
            return Table(holes, members)
        case 1:
            return Intervals(holes, members)
        case _:
            return Grid(holes, members)


class Cells:
    """Key -> members, compared on the `remaining` holes (by position) when they are looked up."""

    __slots__ = ("_compare", "_remaining", "_ways", "by_key")

    def __init__(self, remaining: Mapping[int, Hole]) -> None:
        self._remaining = remaining
        self._compare = comparison(
            (position, hole.operator) for position, hole in remaining.items()
        )
        #: Keys have no NaN: a value that is NaN would be found by identity.
        self.by_key = ShrinkingDict[Key, Cell]()
        self._ways = Ways[Key]()

    @property
    def changes(self) -> int:
        """Rises when a way of `under` leads elsewhere."""
        return self._ways.changes

    def add(self, key: Key, member: Member) -> None:
        """File a member under its key."""
        cell = self.by_key.get(key, ())
        if not isinstance(cell, tuple):
            cell.add(member)
            return
        if not self._remaining or len(cell) < _MOST_LISTED:
            self._put(key, (*cell, member))
        else:
            self._put(key, crowd(self._remaining, (*cell, member)))

    def remove(self, key: Key, member: Member) -> None:
        """Strike a member."""
        cell = self.by_key[key]
        if not isinstance(cell, tuple):
            cell.remove(member)
            if cell.size < _LEAST_INDEXED:
                self._put(key, tuple(cell.members()))
            return
        self._put(key, tuple([each for each in cell if each is not member]))

    def under(self, key: Key) -> Way:
        """The way to the members under a key, to be found by what remains."""
        way = self._ways.get(key)
        if way is None:
            way = self._ways.open(key, self._finder(self.by_key.get(key)), self._remaining)
        return way

    def _put(self, key: Key, cell: Cell) -> None:
        if cell == ():
            del self.by_key[key]
        else:
            self.by_key[key] = cell
        way = self._ways.get(key)
        if way is None:
            return
        if isinstance(cell, tuple) and cell and isinstance(way.finder, Few):
            way.finder.members = cell
        else:
            self._ways.lead(way, self._finder(cell))

    def _finder(self, cell: Cell | None) -> Few | Crowd | None:
        if isinstance(cell, tuple):
            return Few(self._compare, cell) if cell else None
        return cell

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
