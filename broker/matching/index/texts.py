"""Indexes of one hole within a sheet that go by a literal's bytes or equality (checklist F5)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from broker.matching.index.holes import Literal
from broker.matching.index.needles import Needles
from broker.matching.index.postings import Postings


class HoleIndex(Protocol):
    """The numbers of one sheet by their literals at one hole."""

    def add(self, number: int, literal: Any) -> None:
        """File a number; the member must be in its slot already."""

    def remove(self, number: int, literal: Any) -> None:
        """Strike a number; the member must be in its slot still."""

    def load(self, pairs: Iterable[tuple[int, Any]]) -> None:
        """File many numbers at once into an empty index."""

    def bits(self, value: Any) -> int:
        """Exactly the numbers that a value satisfies."""

    def column(self, values: Sequence[Any]) -> list[int]:
        """For each value a bitmap of all that it satisfies, and possibly of a few others."""


class _ByLiteral:
    """Equal values of a batch are looked up once."""

    __slots__ = ("_postings",)

    def __init__(self) -> None:
        self._postings = Postings()

    def add(self, number: int, literal: Literal) -> None:
        # NaN equals nothing: it is left out, or it would be found by identity.
        if literal == literal:
            self._postings.add(number, literal)

    def remove(self, number: int, literal: Literal) -> None:
        if literal == literal:
            self._postings.remove(number, literal)

    def load(self, pairs: Iterable[tuple[int, Any]]) -> None:
        for number, literal in pairs:
            self.add(number, literal)

    def bits(self, value: Any) -> int:
        return self._postings.bits(value)

    def column(self, values: Sequence[Any]) -> list[int]:
        known = {value: self.bits(value) for value in set(values)}
        return [known[value] for value in values]


class Equal(_ByLiteral):
    """`value = literal`, for text or numbers."""

    __slots__ = ()


class NotEqual(_ByLiteral):
    """`value != literal`, for text or numbers: all but those with an equal literal."""

    __slots__ = ("_everyone",)

    def __init__(self) -> None:
        super().__init__()
        self._everyone = 0

    def add(self, number: int, literal: Literal) -> None:
        super().add(number, literal)
        self._everyone |= 1 << number

    def remove(self, number: int, literal: Literal) -> None:
        super().remove(number, literal)
        self._everyone ^= 1 << number

    def bits(self, value: Any) -> int:
        return self._everyone ^ self._postings.bits(value)


class Prefixes(_ByLiteral):
    """`starts-with(value, literal)`: one look-up for each length that a literal has."""

    __slots__ = ("_lengths",)

    def __init__(self) -> None:
        super().__init__()
        #: Length in bytes -> distinct literals of that length.
        self._lengths: dict[int, int] = {}

    def add(self, number: int, literal: Any) -> None:
        if self._postings.add(number, literal):
            self._lengths[len(literal)] = self._lengths.get(len(literal), 0) + 1

    def remove(self, number: int, literal: Any) -> None:
        if self._postings.remove(number, literal):
            self._lengths[len(literal)] -= 1
            if not self._lengths[len(literal)]:
                del self._lengths[len(literal)]

    def bits(self, value: Any) -> int:
        found = 0
        for length in self._lengths:
            if length <= len(value):
                found |= self._postings.bits(value[:length])
        return found


class Substrings(_ByLiteral):
    """`contains(value, literal)`, with the literals of all sheets of a table in common.

    `column` is given what `Needles.column` returned, so that a value is searched once for all.
    """

    __slots__ = ("_needles",)

    def __init__(self, needles: Needles) -> None:
        super().__init__()
        self._needles = needles

    def add(self, number: int, literal: Any) -> None:
        if self._postings.add(number, literal):
            self._needles.add(literal)

    def remove(self, number: int, literal: Any) -> None:
        if self._postings.remove(number, literal):
            self._needles.remove(literal)

    def bits(self, value: Any) -> int:
        return self._union(self._needles.contained_in(value))

    def column(self, values: Sequence[Any]) -> list[int]:
        known = {texts: self._union(texts) for texts in set(values)}
        return [known[texts] for texts in values]

    def _union(self, texts: tuple[bytes, ...]) -> int:
        found = 0
        for text in texts:
            found |= self._postings.bits(text)
        return found
