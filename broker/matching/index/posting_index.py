"""Posting-list indexes of one parameter in one partition (checklist F5)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from broker.matching.index.parameter import Literal
from broker.matching.index.posting_list import PostingLists
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


class _LiteralIndex:
    __slots__ = ("_postings",)

    def __init__(self) -> None:
        self._postings = PostingLists()

    def add(self, number: int, literal: Literal) -> None:
        # NaN equals nothing, but a dict would find it by identity.
        if literal == literal:
            self._postings.add(number, literal)

    def remove(self, number: int, literal: Literal) -> None:
        if literal == literal:
            self._postings.remove(number, literal)

    def load(self, pairs: Iterable[tuple[int, Any]]) -> None:
        for number, literal in pairs:
            self.add(number, literal)

    def match_value(self, value: Any) -> int:
        return self._postings.bitmap_of(value)

    def match_column(self, values: Sequence[Any]) -> list[int]:
        known = {value: self.match_value(value) for value in set(values)}
        return [known[value] for value in values]


class EqualIndex(_LiteralIndex):
    __slots__ = ()


class NotEqualIndex(_LiteralIndex):
    """`value != literal`, for text or numbers: all numbers but those with an equal literal."""

    __slots__ = ("_full_bitmap",)

    def __init__(self) -> None:
        super().__init__()
        self._full_bitmap = 0

    def add(self, number: int, literal: Literal) -> None:
        super().add(number, literal)
        self._full_bitmap |= 1 << number

    def remove(self, number: int, literal: Literal) -> None:
        super().remove(number, literal)
        self._full_bitmap ^= 1 << number

    def match_value(self, value: Any) -> int:
        return self._full_bitmap ^ self._postings.bitmap_of(value)


class StartsWithIndex(_LiteralIndex):
    """`starts-with(value, literal)`: one look-up for each length of a literal."""

    __slots__ = ("_lengths",)

    def __init__(self) -> None:
        super().__init__()
        #: Distinct literals by their length in bytes.
        self._lengths: dict[int, int] = {}

    def add(self, number: int, literal: Any) -> None:
        if self._postings.add(number, literal):
            self._lengths[len(literal)] = self._lengths.get(len(literal), 0) + 1

    def remove(self, number: int, literal: Any) -> None:
        if self._postings.remove(number, literal):
            self._lengths[len(literal)] -= 1
            if not self._lengths[len(literal)]:
                del self._lengths[len(literal)]

    def match_value(self, value: Any) -> int:
        found = 0
        for length in self._lengths:
            if length <= len(value):
                found |= self._postings.bitmap_of(value[:length])
        return found


class ContainsIndex(_LiteralIndex):
    """`contains(value, literal)`. All partitions share one index of the literals.

    `match_column` takes the result of `SubstringIndex.search_column`, so a value is searched once.
    """

    __slots__ = ("_substrings",)

    def __init__(self, substrings: SubstringIndex) -> None:
        super().__init__()
        self._substrings = substrings

    def add(self, number: int, literal: Any) -> None:
        if self._postings.add(number, literal):
            self._substrings.add(literal)

    def remove(self, number: int, literal: Any) -> None:
        if self._postings.remove(number, literal):
            self._substrings.remove(literal)

    def match_value(self, value: Any) -> int:
        return self._unite(self._substrings.find_contained(value))

    def match_column(self, values: Sequence[Any]) -> list[int]:
        known = {texts: self._unite(texts) for texts in set(values)}
        return [known[texts] for texts in values]

    def _unite(self, texts: tuple[bytes, ...]) -> int:
        found = 0
        for text in texts:
            found |= self._postings.bitmap_of(text)
        return found
