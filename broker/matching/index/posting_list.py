"""Posting lists: the member numbers for each literal, in little memory."""

from __future__ import annotations

from typing import TypeAlias

from broker.matching.index.bitmap import NUMBERS, iterate_numbers
from broker.matching.index.parameter import Literal

#: A list of more numbers is stored as a bitmap, which is then smaller.
_MAX_LIST = 16

Numbers: TypeAlias = tuple[int, ...]

#: Shared lists of one number, since most literals have one member.
_SINGLE: tuple[Numbers, ...] = tuple((number,) for number in NUMBERS)


class PostingLists:
    """Numbers of a partition by literal. NaN must not be added, since it equals nothing."""

    __slots__ = ("_by_literal",)

    def __init__(self) -> None:
        #: A few numbers as a tuple, more as a bitmap.
        self._by_literal: dict[Literal, Numbers | int] = {}

    def add(self, number: int, literal: Literal) -> bool:
        """Add a number; return True if the literal is new."""
        known = self._by_literal.get(literal)
        if known is None:
            self._by_literal[literal] = _SINGLE[number]
            return True
        if isinstance(known, int):
            self._by_literal[literal] = known | 1 << number
        elif len(known) < _MAX_LIST:
            self._by_literal[literal] = (*known, number)
        else:
            self._by_literal[literal] = _to_bitmap(known) | 1 << number
        return False

    def remove(self, number: int, literal: Literal) -> bool:
        """Remove a number; return True if it was the last one of the literal."""
        known = self._by_literal[literal]
        if isinstance(known, int):
            left = known ^ 1 << number
            few = left.bit_count() <= _MAX_LIST // 2
            self._by_literal[literal] = tuple(iterate_numbers(left)) if few else left
            return False
        if len(known) == 1:
            del self._by_literal[literal]
            return True
        rest = tuple(each for each in known if each != number)
        self._by_literal[literal] = rest if len(rest) > 1 else _SINGLE[rest[0]]
        return False

    def bitmap_of(self, literal: Literal) -> int:
        known = self._by_literal.get(literal)
        if known is None:
            return 0
        return known if isinstance(known, int) else _to_bitmap(known)


def _to_bitmap(few: Numbers) -> int:
    bits = 0
    for number in few:
        bits |= 1 << number
    return bits
