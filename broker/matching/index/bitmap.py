"""Bitmaps of member numbers as Python integers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress
from typing import TypeVar

T = TypeVar("T")

#: How many members share one set of bitmaps. Beyond it every bitmap is so long that a change, which
#: touches hundreds of them, would be felt, and their memory would grow with the square.
PARTITION_SIZE = 1024

#: The numbers in a partition, as objects to be shared: an integer weighs 28 bytes.
NUMBERS = tuple(range(PARTITION_SIZE))

#: From this share of ones on, reading all digits is cheaper than taking the ones out (measured).
_DENSE = 10
_FLAGS = bytes.maketrans(b"01", b"\x00\x01")


def iterate_numbers(bits: int) -> Iterator[int]:
    """The numbers in a bitmap, descending: so the integer shrinks while it is emptied."""
    while bits:
        number = bits.bit_length() - 1
        yield number
        bits ^= 1 << number


def select_slots(bits: int, slots: Sequence[T]) -> list[T]:
    """What stands in `slots` at the numbers in a bitmap, in no particular order."""
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
