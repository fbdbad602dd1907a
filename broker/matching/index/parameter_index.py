"""Indexes of one parameter in one partition (checklist F5): members' numbers by literal.

`match_value` is exact, `match_column` may return a few other numbers too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, TypeAlias, cast

from broker.matching.index.bound_block import BoundBlocks
from broker.matching.index.parameter import Parameter
from broker.matching.index.substring_index import SubstringIndex


class EqualIndex:
    """`value = literal`: the bitmap of each literal. NaN equals nothing, and is not stored."""

    __slots__ = ("_by_literal",)

    def __init__(self) -> None:
        self._by_literal: dict[Any, int] = {}

    def add(self, number: int, literal: Any) -> None:
        # A dict would find NaN by identity.
        if literal == literal:
            known = self._by_literal.get(literal)
            if known is None:
                self._on_new_literal(literal)
            self._by_literal[literal] = (known or 0) | 1 << number

    def remove(self, number: int, literal: Any) -> None:
        if literal == literal:
            left = self._by_literal[literal] ^ 1 << number
            if left:
                self._by_literal[literal] = left
            else:
                del self._by_literal[literal]
                self._on_last_removed(literal)

    def load(self, pairs: Iterable[tuple[int, Any]]) -> None:
        for number, literal in pairs:
            self.add(number, literal)

    def match_value(self, value: Any) -> int:
        return self._by_literal.get(value, 0)

    def match_column(self, values: Sequence[Any]) -> list[int]:
        known = {value: self.match_value(value) for value in set(values)}
        return [known[value] for value in values]

    def _unite(self, literals: Iterable[Any]) -> int:
        found = 0
        for literal in literals:
            found |= self._by_literal.get(literal, 0)
        return found

    def _on_new_literal(self, literal: Any) -> None:
        """Called before the first number of a literal is added."""

    def _on_last_removed(self, literal: Any) -> None:
        """Called when the last number of a literal is removed."""


class NotEqualIndex(EqualIndex):
    """`value != literal`, for text or numbers: all numbers but those with an equal literal."""

    __slots__ = ("_full_bitmap",)

    def __init__(self) -> None:
        super().__init__()
        self._full_bitmap = 0

    def add(self, number: int, literal: Any) -> None:
        super().add(number, literal)
        self._full_bitmap |= 1 << number

    def remove(self, number: int, literal: Any) -> None:
        super().remove(number, literal)
        self._full_bitmap ^= 1 << number

    def match_value(self, value: Any) -> int:
        return self._full_bitmap ^ super().match_value(value)


class StartsWithIndex(EqualIndex):
    """`starts-with(value, literal)`: one look-up for each length of a literal."""

    __slots__ = ("_lengths",)

    def __init__(self) -> None:
        super().__init__()
        #: Distinct literals by their length in bytes.
        self._lengths = Counter[int]()

    def match_value(self, value: Any) -> int:
        size = len(value)
        return self._unite(value[:length] for length in self._lengths if length <= size)

    def _on_new_literal(self, literal: Any) -> None:
        self._lengths[len(literal)] += 1

    def _on_last_removed(self, literal: Any) -> None:
        self._lengths[len(literal)] -= 1
        if not self._lengths[len(literal)]:
            del self._lengths[len(literal)]


class ContainsIndex(EqualIndex):
    """`contains(value, literal)`. All partitions share one index of the literals.

    `match_column` takes the result of `SubstringIndex.search_column`.
    """

    __slots__ = ("_substrings",)

    def __init__(self, substrings: SubstringIndex) -> None:
        super().__init__()
        self._substrings = substrings

    def match_value(self, value: Any) -> int:
        return self._unite(self._substrings.find_contained(value))

    def match_column(self, values: Sequence[Any]) -> list[int]:
        known = {texts: self._unite(texts) for texts in set(values)}
        return [known[texts] for texts in values]

    def _on_new_literal(self, literal: Any) -> None:
        self._substrings.add(literal)

    def _on_last_removed(self, literal: Any) -> None:
        self._substrings.remove(literal)


class ThresholdIndex:
    """The bounds of one parameter in one partition, without NaN, which matches nothing."""

    __slots__ = ("_blocks", "_position", "_slots", "_test", "match_column")

    def __init__(self, parameter: Parameter, position: int, slots: Sequence[Any]) -> None:
        self._position = position
        #: The members of the partition by number.
        self._slots = slots
        self._test = parameter.test
        self._blocks = BoundBlocks(parameter.operator, self._bound_of)
        #: Returns for each value all matches, possibly with other numbers of one block.
        self.match_column = self._blocks.match_column

    def add(self, number: int, literal: Any) -> None:
        if literal == literal:
            self._blocks.add(number, literal)

    def remove(self, number: int, literal: Any) -> None:
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


ParameterIndex: TypeAlias = EqualIndex | ThresholdIndex
