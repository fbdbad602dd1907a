"""Bitmaps of member numbers as Python integers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress
from typing import TypeVar

T = TypeVar("T")

#: Members that share one set of bitmaps. A change touches hundreds of bitmaps, so longer ones would
#: make it slow, and memory would grow with the square.
PARTITION_SIZE = 1024

#: The numbers in a partition. Sharing these objects saves 28 bytes an integer.
NUMBERS = tuple(range(PARTITION_SIZE))

#: A bitmap with at least one set bit in so many is read digit by digit, which is faster (measured).
_DENSE = 10
_FLAGS = bytes.maketrans(b"01", b"\x00\x01")


def iterate_numbers(bits: int) -> Iterator[int]:
    """Yield the numbers in a bitmap in descending order, so that the integer shrinks on the way."""
    while bits:
        number = bits.bit_length() - 1
        yield number
        bits ^= 1 << number


def select_slots(bits: int, slots: Sequence[T]) -> list[T]:
    """Return the items of `slots` at the numbers in a bitmap, unordered."""
    length = bits.bit_length()
    if length > _DENSE and bits.bit_count() * _DENSE > length:
        flags = format(bits, "b").encode().translate(_FLAGS)
        return list(compress(slots, flags[::-1]))
    taken = []
    while bits:
        number = bits.bit_length() - 1
        taken.append(slots[number])
        bits ^= 1 << number
    return taken
