"""Threshold index of one parameter: `value < literal` and the like (checklist F5)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, cast

from broker.matching.index.bound_block import BoundBlocks
from broker.matching.index.parameter import Parameter


class ThresholdIndex:
    """The bounds of one parameter in one partition. NaN bounds match nothing and are omitted."""

    __slots__ = ("_blocks", "_position", "_slots", "_test", "match_column")

    def __init__(self, parameter: Parameter, position: int, slots: Sequence[Any]) -> None:
        self._position = position
        #: The members of the partition by number.
        self._slots = slots
        self._test = parameter.test
        self._blocks = BoundBlocks(parameter.operator, self._bound_of)
        #: Returns for each value all matches, possibly with other numbers of one block.
        self.match_column = self._blocks.match_column

    def add(self, number: int, literal: float) -> None:
        if literal == literal:
            self._blocks.add(number, literal)

    def remove(self, number: int, literal: float) -> None:
        if literal == literal:
            self._blocks.remove(number, literal)

    def load(self, pairs: Iterable[tuple[int, Any]]) -> None:
        bounds = [(literal, number) for number, literal in pairs if literal == literal]
        self._blocks.fill(sorted(bounds, key=itemgetter(0)))

    def match_value(self, value: float) -> int:
        found = self.match_column((value,))
        self.refine(found, (value,))
        return found[0]

    def refine(self, bitmaps: list[int], values: Sequence[float]) -> None:
        """Remove false matches from bitmaps that are parts of the result of `match_column`."""
        blocks = self._blocks
        find, marks, unions, behind = blocks.bisect, blocks.marks, blocks.unions, blocks.is_rising
        slots, position, test = self._slots, self._position, self._test
        for row, bits in enumerate(bitmaps):
            if not bits:
                continue
            value = values[row]
            # The bitmap is not empty, so the value matches a part of this block and all blocks
            # before.
            at = find(marks, value) - behind
            doubtful = bits & (unions[at] ^ unions[at + 1])
            if not doubtful or test(value, blocks.get_block(at)[-1 if behind else 0]):
                continue
            while doubtful:
                number = doubtful.bit_length() - 1
                bit = 1 << number
                doubtful ^= bit
                if not test(value, slots[number].literals[position]):
                    bits ^= bit
            bitmaps[row] = bits

    @property
    def weakest_bound(self) -> float | None:
        """The bound that matches whenever any does; None without bounds."""
        marks = self._blocks.marks
        return marks[0 if self._blocks.is_rising else -1] if marks else None

    def find_middle(self) -> tuple[float, int] | None:
        """Return a bound near the middle and the bitmap of the numbers below it."""
        at = len(self._blocks.marks) // 2
        return (self._blocks.get_block(at)[0], self._blocks.bitmap_below(at)) if at else None

    def _bound_of(self, number: int) -> float:
        return cast(float, self._slots[number].literals[self._position])
