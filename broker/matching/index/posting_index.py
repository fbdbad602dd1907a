"""Indexes of the literals of one parameter in one partition (checklist F5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from broker.matching.index.substring_index import SubstringIndex


class ParameterIndex(Protocol):
    """The member numbers of a partition by their literals at one parameter."""

    def add(self, number: int, literal: Any) -> None:
        """Add a number. The member must be in its slot already."""

    def remove(self, number: int, literal: Any) -> None:
        """Remove a number. The member must still be in its slot."""

    def load(self, pairs: Iterable[tuple[int, Any]]) -> None:
        """Load many numbers at once into an empty index."""

    def match_value(self, value: Any) -> int:
        """Return the bitmap of exactly the numbers that match a value."""

    def match_column(self, values: Sequence[Any]) -> list[int]:
        """Return for each value a bitmap of all matches, possibly with a few other numbers."""


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

    `match_column` takes the result of `SubstringIndex.search_column`, so a value is searched once.
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
