"""Grid index: members by a hash of the cells that their windows touch (F5).

A hash of two dimensions finds few members, where an index for each would find many.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import cast

from broker.matching.index.bitmap_index import Overflow
from broker.matching.index.comparison import compile_comparison
from broker.matching.index.member import Columns, Member, ResultCache, RowMatches
from broker.matching.index.parameter import Literal, Parameter, find_windows
from broker.matching.index.shrinking_dict import ShrinkingDict

#: Windows used as coordinates. Each doubles the cells of a member.
MAX_WINDOWS = 2
#: Levels, each with one look-up for a value. Members that fit no level go to the overflow.
MAX_LEVELS = 12
#: Members in one cell, which are compared one by one. Further members go to the overflow.
MAX_CELL_MEMBERS = 128
#: A window may use cells so many times wider than it needs. That compares more members but needs
#: fewer levels.
_MAX_WIDTH_RATIO = 8.0
#: A level with at most so many members may be replaced by a wider one.
_FEW_MEMBERS = 64
#: Combines two cell numbers into one. Comparison separates members that collide.
_CELL_STRIDE = 1_000_003.0


class _GridLevel:
    __slots__ = ("by_key", "size", "sizes")

    def __init__(self, sizes: tuple[float, ...]) -> None:
        self.sizes = sizes
        self.by_key = ShrinkingDict[float, tuple[Member, ...]]()
        self.size = 0

    def fits(self, sizes: Sequence[float]) -> bool:
        return all(
            need <= size <= need * _MAX_WIDTH_RATIO
            for need, size in zip(sizes, self.sizes, strict=True)
        )

    def can_widen_to(self, sizes: Sequence[float]) -> bool:
        """True if the windows of this level also fit cells of these larger sizes."""
        return all(size <= 2 * known for size, known in zip(sizes, self.sizes, strict=True))

    def add_member(self, member: Member, keys: Iterable[float]) -> None:
        for key in keys:
            self.by_key[key] = (*self.by_key.get(key, ()), member)
        self.size += 1


class GridIndex:
    """Members by the parameters at the given positions, at least one window among them."""

    __slots__ = ("_compare", "_levels", "_overflow", "_windows", "size")

    def __init__(self, parameters: Mapping[int, Parameter], members: Iterable[Member] = ()) -> None:
        self._windows = tuple(find_windows(parameters)[:MAX_WINDOWS])
        self._compare = compile_comparison(parameters)
        #: By the number that members store while they are in the level.
        self._levels: dict[int, _GridLevel] = {}
        self._overflow = Overflow(parameters)
        self.size = 0
        for member in members:
            self.add(member)

    def add(self, member: Member) -> None:
        self.size += 1
        member.partition = None
        if not self._add_to_level(member):
            self._overflow.add(member)

    def remove(self, member: Member) -> None:
        self.size -= 1
        if self._overflow.discard(member):
            return
        level = self._levels[member.number]
        for key in self._keys_for(level, member.literals):
            left = tuple(each for each in level.by_key[key] if each is not member)
            if left:
                level.by_key[key] = left
            else:
                del level.by_key[key]
        level.size -= 1
        if not level.size:
            del self._levels[member.number]

    def list_members(self) -> list[Member]:
        filed = {
            member: None
            for level in self._levels.values()
            for cell in level.by_key.values()
            for member in cell
        }
        return [*filed, *self._overflow.list_members()]

    def match_rows(self, columns: Columns, rows: int, cache: ResultCache = None) -> RowMatches:
        found: list[tuple[int, Sequence[Member]]] = []
        lower = [columns[window.lower] for window in self._windows]
        for level in self._levels.values():
            cells = map(level.by_key.get, _cell_keys(level, lower, cache))
            self._compare(enumerate(cells), columns, found)
        found += self._overflow.match_rows(columns, rows)
        return found

    def _add_to_level(self, member: Member) -> bool:
        sizes = []
        for window in self._windows:
            size = window.cell_size(member.literals)
            if size is None:
                return False
            sizes.append(size)
        number = self._find_level(tuple(sizes))
        if number is None:
            return False
        level = self._levels[number]
        keys = self._keys_for(level, member.literals)
        if any(len(level.by_key.get(key, ())) >= MAX_CELL_MEMBERS for key in keys):
            return False
        level.add_member(member, keys)
        member.number = number
        return True

    def _find_level(self, sizes: tuple[float, ...]) -> int | None:
        """Return the number of a level for such windows; None if there can be no further level."""
        for number, level in self._levels.items():
            if level.fits(sizes):
                return number
        for number, level in list(self._levels.items()):
            wider = tuple(map(max, sizes, level.sizes))
            if level.size <= _FEW_MEMBERS and level.can_widen_to(wider):
                # Else the first few members would keep a level of their own for good.
                return self._widen_level(number, wider)
        if len(self._levels) >= MAX_LEVELS:
            return None
        number = max(self._levels, default=0) + 1
        self._levels[number] = _GridLevel(sizes)
        return number

    def _widen_level(self, number: int, sizes: tuple[float, ...]) -> int:
        previous = self._levels[number]
        level = self._levels[number] = _GridLevel(sizes)
        for member in dict.fromkeys(each for cell in previous.by_key.values() for each in cell):
            level.add_member(member, self._keys_for(level, member.literals))
        return number

    def _keys_for(self, level: _GridLevel, literals: Sequence[Literal]) -> list[float]:
        touched = [
            window.touched_cells(literals, size)
            for window, size in zip(self._windows, level.sizes, strict=True)
        ]
        cells = [
            choice[0] if len(choice) == 1 else choice[0] + choice[1] * _CELL_STRIDE
            for choice in product(*touched)
        ]
        return list(dict.fromkeys(cells))


def _cell_keys(level: _GridLevel, columns: Columns, cache: ResultCache) -> list[float]:
    """Return the key of each row, shared by templates with the same subjects."""
    sizes = level.sizes
    same = (sizes, *map(id, columns))
    cells = None if cache is None else cast("list[float] | None", cache.get(same))
    if cells is None:
        size = sizes[0]
        if len(sizes) == 1:
            cells = [value // size for value in columns[0]]
        else:
            other = sizes[1]
            cells = [
                one // size + two // other * _CELL_STRIDE for one, two in zip(*columns, strict=True)
            ]
        if cache is not None:
            cache[same] = cells
    return cells
