"""Members by a hash of the cells that their windows touch (F5).

Boxes are narrow in two dimensions at once. A hash of both leads to few members, where an index for
each would bring many to intersect.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any, cast

from broker.matching.index.comparison import comparison
from broker.matching.index.holes import Hole, Literal
from broker.matching.index.member import Member
from broker.matching.index.rest import Rest
from broker.matching.index.shrinking import ShrinkingDict
from broker.matching.index.windows import windows

#: Windows that are coordinates; each doubles the cells that a member is filed under.
MAX_WINDOWS = 2
#: Lattices, each of which costs a look-up for a value. Members that fit in none of them are indexed
#: by bitmaps.
MAX_LATTICES = 12
#: Members in one cell, which are compared one by one; further ones are indexed by bitmaps.
MAX_CELL = 128
#: A window is filed in cells up to so many times wider than it needs: more members are compared
#: then, but less lattices looked up.
_WIDEST = 8.0
#: Members of a lattice that is given up for a wider one.
_FEW = 64
#: Makes one number of two cell numbers. Members that meet by chance are told apart by comparison.
_FAR = 1_000_003.0


class _Lattice:
    """Cells of one width for each window."""

    __slots__ = ("by_key", "members", "sizes")

    def __init__(self, sizes: tuple[float, ...]) -> None:
        self.sizes = sizes
        self.by_key = ShrinkingDict[float, tuple[Member, ...]]()
        self.members = 0

    def fits(self, sizes: Sequence[float]) -> bool:
        """Whether windows that need cells of these sizes may be filed here."""
        return all(
            need <= size <= need * _WIDEST for need, size in zip(sizes, self.sizes, strict=True)
        )

    def nearly_fits(self, sizes: Sequence[float]) -> bool:
        """Whether such sizes, which are not smaller, would do for the windows that are here."""
        return all(size <= 2 * known for size, known in zip(sizes, self.sizes, strict=True))

    def file(self, member: Member, keys: Iterable[float]) -> None:
        """Put a member into its cells."""
        for key in keys:
            self.by_key[key] = (*self.by_key.get(key, ()), member)
        self.members += 1


class Grid:
    """Members by those holes that are given with their positions, a window among them at least."""

    __slots__ = ("_compare", "_lattices", "_rest", "_windows", "size")

    def __init__(self, holes: Mapping[int, Hole], members: Iterable[Member] = ()) -> None:
        self._windows = tuple(windows(holes)[:MAX_WINDOWS])
        self._compare = comparison((position, hole.operator) for position, hole in holes.items())
        #: By number, which members have as theirs while they are filed here.
        self._lattices: dict[int, _Lattice] = {}
        self._rest = Rest(holes)
        self.size = 0
        for member in members:
            self.add(member)

    def add(self, member: Member) -> None:
        """Take in a member that is not here."""
        self.size += 1
        if not self._file(member):
            self._rest.add(member)

    def remove(self, member: Member) -> None:
        """Forget a member that is here."""
        self.size -= 1
        if self._rest.discard(member):
            return
        lattice = self._lattices[member.number]
        for key in self._keys_of(lattice, member.literals):
            left = tuple(each for each in lattice.by_key[key] if each is not member)
            if left:
                lattice.by_key[key] = left
            else:
                del lattice.by_key[key]
        lattice.members -= 1
        if not lattice.members:
            del self._lattices[member.number]

    def members(self) -> list[Member]:
        """Everyone."""
        filed = {
            member: None
            for lattice in self._lattices.values()
            for cell in lattice.by_key.values()
            for member in cell
        }
        return [*filed, *self._rest]

    def find_rows(
        self,
        columns: Sequence[Sequence[Any]],
        rows: int,
        known: dict[Any, Any] | None = None,
    ) -> list[tuple[int, Sequence[Member]]]:
        """See `Finder`."""
        found: list[tuple[int, Sequence[Member]]] = []
        lower = [columns[window.lower] for window in self._windows]
        for lattice in self._lattices.values():
            cells = map(lattice.by_key.get, _cells(lattice, lower, known))
            self._compare(enumerate(cells), columns, found)
        found += self._rest.find_rows(columns, rows)
        return found

    def _file(self, member: Member) -> bool:
        sizes = []
        for window in self._windows:
            size = window.size(member.literals)
            if size is None:
                return False
            sizes.append(size)
        number = self._number(tuple(sizes))
        if number is None:
            return False
        lattice = self._lattices[number]
        keys = self._keys_of(lattice, member.literals)
        if any(len(lattice.by_key.get(key, ())) >= MAX_CELL for key in keys):
            return False
        lattice.file(member, keys)
        member.number = number
        return True

    def _number(self, sizes: tuple[float, ...]) -> int | None:
        """The number of a lattice for such windows, None if there may be no more of them."""
        for number, lattice in self._lattices.items():
            if lattice.fits(sizes):
                return number
        for number, lattice in list(self._lattices.items()):
            wider = tuple(map(max, sizes, lattice.sizes))
            if lattice.members <= _FEW and lattice.nearly_fits(wider):
                # So the first few do not keep a lattice of their own for good.
                return self._replace(number, wider)
        if len(self._lattices) >= MAX_LATTICES:
            return None
        number = max(self._lattices, default=0) + 1
        self._lattices[number] = _Lattice(sizes)
        return number

    def _replace(self, number: int, sizes: tuple[float, ...]) -> int:
        """Give the members of a lattice another one."""
        former = self._lattices[number]
        lattice = self._lattices[number] = _Lattice(sizes)
        for member in dict.fromkeys(each for cell in former.by_key.values() for each in cell):
            lattice.file(member, self._keys_of(lattice, member.literals))
        return number

    def _keys_of(self, lattice: _Lattice, literals: Sequence[Literal]) -> list[float]:
        """The keys under which a member is filed."""
        touched = [
            window.cells(literals, size)
            for window, size in zip(self._windows, lattice.sizes, strict=True)
        ]
        cells = [
            choice[0] if len(choice) == 1 else choice[0] + choice[1] * _FAR
            for choice in product(*touched)
        ]
        return list(dict.fromkeys(cells))


def _cells(
    lattice: _Lattice, columns: Sequence[Sequence[Any]], known: dict[Any, Any] | None
) -> list[float]:
    """The key of each row. Templates of the same subjects mostly have the same."""
    sizes = lattice.sizes
    same = (sizes, *map(id, columns))
    cells = None if known is None else cast("list[float] | None", known.get(same))
    if cells is None:
        size = sizes[0]
        if len(sizes) == 1:
            cells = [value // size for value in columns[0]]
        else:
            other = sizes[1]
            cells = [one // size + two // other * _FAR for one, two in zip(*columns, strict=True)]
        if known is not None:
            known[same] = cells
    return cells
