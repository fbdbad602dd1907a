"""Sets of small integers as Python integers."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
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
_NOT_ZERO = re.compile(rb"[^\0]")
_BITS_OF = tuple(tuple(bit for bit in range(8) if byte >> bit & 1) for byte in range(256))


def iterate_numbers(bits: int) -> Iterator[int]:
    """Yield the numbers in a bitmap, descending, so that the integer shrinks on the way."""
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


def list_members(bitmap: int) -> list[int]:
    """Return the members, ascending: about 0.3 us each."""
    octets = bitmap.to_bytes((bitmap.bit_length() + 7) // 8, "little")
    found = []
    for match in _NOT_ZERO.finditer(octets):
        place = match.start()
        for bit in _BITS_OF[octets[place]]:
            found.append(place * 8 + bit)
    return found


def bitmap_of(numbers: Collection[int]) -> int:
    if not numbers:
        return 0
    octets = bytearray(max(numbers) // 8 + 1)
    for number in numbers:
        octets[number >> 3] |= 1 << (number & 7)
    return int.from_bytes(octets, "little")
