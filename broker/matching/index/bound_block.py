"""Sorted bounds in small blocks, with one cumulative bitmap for each block (DESIGN 6).

A value matches all blocks with a bound that it satisfies, the last of them perhaps in part. Equal
bounds share a block, which may have any size.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Sequence

from broker.matching.bitmap import iterate_numbers
from broker.matching.index.parameter import Operator

_BISECTIONS: dict[Operator, Callable[[list[float], float], int]] = {
    Operator.GREATER: bisect_left,
    Operator.GREATER_EQUAL: bisect_right,
    Operator.LESS: bisect_right,
    Operator.LESS_EQUAL: bisect_left,
}
_RISING = frozenset({Operator.GREATER, Operator.GREATER_EQUAL})


class CumulativeBitmaps:
    """Bitmaps of groups that are sorted by bound, united from one side.

    Rising (`value > bound`): `marks[i]` is the least bound of group i, and `unions[i]` unites the
    first i groups. A value matches a part of each group whose mark is below it. Falling is the
    mirror image: marks are the greatest bounds, and `unions[i]` unites the groups from i on.
    """

    __slots__ = ("bisect", "marks", "is_rising", "unions")

    def __init__(self, operator: Operator) -> None:
        self.bisect = _BISECTIONS[operator]
        self.is_rising = operator in _RISING
        self.marks: list[float] = []
        self.unions: list[int] = [0]

    def load(self, marks: Sequence[float], bitmaps: Sequence[int]) -> None:
        self.marks = list(marks)
        self.unions = [0]
        for bits in bitmaps if self.is_rising else reversed(bitmaps):
            self.unions.append(self.unions[-1] | bits)
        if not self.is_rising:
            self.unions.reverse()

    def match_column(self, values: Sequence[float]) -> list[int]:
        """Return for each value the union of the groups that it matches in part."""
        find, marks, unions = self.bisect, self.marks, self.unions
        return [unions[find(marks, value)] if value == value else 0 for value in values]


#: Bounds in a block. Smaller blocks are more exact. With these sizes there are at most about 200
#: bitmaps, and a change touches half of them on average.
_SMALL, _LARGE = 4, 8
_SMALL_PARTITION = 512


class BoundBlocks(CumulativeBitmaps):
    """The sorted bounds (never NaN) of numbers; `bound_of` returns that of a number."""

    __slots__ = ("_blocks", "_bound_of", "_size")

    def __init__(self, operator: Operator, bound_of: Callable[[int], float]) -> None:
        super().__init__(operator)
        self._bound_of = bound_of
        self._size = 0
        self._blocks: list[list[float]] = []

    def get_block(self, at: int) -> list[float]:
        return self._blocks[at]

    def bitmap_below(self, at: int) -> int:
        return self.unions[at] if self.is_rising else self.unions[0] ^ self.unions[at]

    def bitmap_of(self, at: int) -> int:
        return self.unions[at] ^ self.unions[at + 1]

    def fill(self, pairs: Sequence[tuple[float, int]]) -> None:
        self._size = len(pairs)
        capacity = self._capacity()
        bitmaps: list[int] = []
        for bound, number in pairs:
            block = self._blocks[-1] if self._blocks else []
            if not block or (len(block) >= capacity * 3 // 4 and bound != block[-1]):
                self._blocks.append([bound])
                bitmaps.append(1 << number)
            else:
                block.append(bound)
                bitmaps[-1] |= 1 << number
        self.load([block[0 if self.is_rising else -1] for block in self._blocks], bitmaps)

    def add(self, number: int, bound: float) -> None:
        self._size += 1
        bit = 1 << number
        if not self._blocks:
            self._insert_block(0, bound)
            self._toggle_bit(0, bit)
            return
        at = self._find_block(bound)
        block = self._blocks[at]
        capacity = self._capacity()
        if len(block) >= capacity and not block[0] <= bound <= block[-1]:
            # The block is full and the bound lies outside: use the neighbour if it has room, else a
            # new block. So bounds that arrive in order fill their blocks.
            beyond = at + 1 if bound > block[-1] else at - 1
            inside = 0 <= beyond < len(self._blocks)
            if inside and len(self._blocks[beyond]) < capacity:
                at = beyond
            else:
                at = max(at, beyond)
                self._insert_block(at, bound)
                self._toggle_bit(at, bit)
                return
        block = self._blocks[at]
        insort(block, bound)
        self._update_mark(at)
        self._toggle_bit(at, bit)
        if len(block) > capacity:
            self._split_block(at)
        else:
            self._merge_block(at)

    def remove(self, number: int, bound: float) -> None:
        at = self._find_block(bound)
        block = self._blocks[at]
        del block[bisect_left(block, bound)]
        self._size -= 1
        self._toggle_bit(at, 1 << number)
        if block:
            self._update_mark(at)
            self._merge_block(at)
        else:
            self._remove_block(at)

    def _capacity(self) -> int:
        return _SMALL if self._size <= _SMALL_PARTITION else _LARGE

    def _find_block(self, bound: float) -> int:
        if self.is_rising:
            return max(bisect_right(self.marks, bound) - 1, 0)
        return min(bisect_left(self.marks, bound), len(self.marks) - 1)

    def _update_mark(self, at: int) -> None:
        self.marks[at] = self._blocks[at][0 if self.is_rising else -1]

    def _toggle_bit(self, at: int, bit: int) -> None:
        unions = self.unions
        if self.is_rising:
            unions[at + 1 :] = [union ^ bit for union in unions[at + 1 :]]
        else:
            unions[: at + 1] = [union ^ bit for union in unions[: at + 1]]

    def _insert_block(self, at: int, bound: float) -> None:
        self._blocks.insert(at, [bound])
        self.marks.insert(at, bound)
        self.unions.insert(at, self.unions[at])

    def _remove_block(self, at: int) -> None:
        """Remove an empty block: the unions on both sides are equal."""
        del self._blocks[at], self.marks[at], self.unions[at]

    def _merge_block(self, at: int) -> None:
        room = self._capacity() * 3 // 4
        for left in (at, at - 1):
            if left < 0 or left + 1 >= len(self._blocks):
                continue
            if len(self._blocks[left]) + len(self._blocks[left + 1]) <= room:
                self._blocks[left] += self._blocks.pop(left + 1)
                del self.marks[left + 1], self.unions[left + 1]
                self._update_mark(left)
                return

    def _split_block(self, at: int) -> None:
        block = self._blocks[at]
        middle = block[len(block) // 2]
        left = bisect_left(block, middle)
        right = bisect_right(block, middle)
        cut = left if left and len(block) - right < left else right
        if cut == len(block):
            cut = left
        if not cut:
            return
        first = block[cut]
        upper = 0
        for number in iterate_numbers(self.bitmap_of(at)):
            if self._bound_of(number) >= first:
                upper |= 1 << number
        self._blocks[at : at + 1] = [block[:cut], block[cut:]]
        self.marks.insert(at + 1, 0.0)
        self._update_mark(at)
        self._update_mark(at + 1)
        if self.is_rising:
            between = self.unions[at + 1] ^ upper
        else:
            between = self.unions[at + 1] | upper
        self.unions.insert(at + 1, between)
