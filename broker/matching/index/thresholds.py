"""The index of a hole that compares by order: `value < literal` and its kin (checklist F5)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, cast

from broker.matching.index.blocks import Blocks
from broker.matching.index.holes import Hole


class Thresholds:
    """The bounds of one hole in one sheet. A bound that is NaN is never satisfied and left out."""

    __slots__ = ("_blocks", "_position", "_slots", "_test", "column")

    def __init__(self, hole: Hole, position: int, slots: Sequence[Any]) -> None:
        self._position = position
        #: The sheet's members by number; a number in the index has one.
        self._slots = slots
        self._test = hole.test
        self._blocks = Blocks(hole.operator, self._bound_of)
        #: For each value all that it satisfies, and perhaps others of one block.
        self.column = self._blocks.column

    def add(self, number: int, literal: float) -> None:
        if literal == literal:
            self._blocks.add(number, literal)

    def remove(self, number: int, literal: float) -> None:
        if literal == literal:
            self._blocks.remove(number, literal)

    def load(self, pairs: Iterable[tuple[int, Any]]) -> None:
        bounds = [(literal, number) for number, literal in pairs if literal == literal]
        self._blocks.fill(sorted(bounds, key=itemgetter(0)))

    def bits(self, value: float) -> int:
        """Exactly the numbers that a value satisfies."""
        found = self.column((value,))
        self.narrow(found, (value,))
        return found[0]

    def narrow(self, bitmaps: list[int], values: Sequence[float]) -> None:
        """Strike from bitmaps, parts of what `column` gave for these values, what is too much."""
        blocks = self._blocks
        find, marks, unions, behind = blocks.bisection, blocks.marks, blocks.unions, blocks.rising
        slots, position, test = self._slots, self._position, self._test
        for row, bits in enumerate(bitmaps):
            if not bits:
                continue
            value = values[row]
            # As there are bits, the value satisfies some of this block, and all of those before.
            at = find(marks, value) - behind
            doubtful = bits & (unions[at] ^ unions[at + 1])
            if not doubtful or test(value, blocks.block(at)[-1 if behind else 0]):
                continue
            while doubtful:
                number = doubtful.bit_length() - 1
                bit = 1 << number
                doubtful ^= bit
                if not test(value, slots[number].literals[position]):
                    bits ^= bit
            bitmaps[row] = bits

    @property
    def weakest(self) -> float | None:
        """The bound that is satisfied whenever any is; None without bounds."""
        marks = self._blocks.marks
        return marks[0 if self._blocks.rising else -1] if marks else None

    def middle(self) -> tuple[float, int] | None:
        """A bound with others below it, near the middle, and the bitmap of those below."""
        at = len(self._blocks.marks) // 2
        return (self._blocks.block(at)[0], self._blocks.below(at)) if at else None

    def _bound_of(self, number: int) -> float:
        return cast(float, self._slots[number].literals[self._position])
