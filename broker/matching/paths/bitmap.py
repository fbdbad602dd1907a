"""Sets of small integers as Python integers."""

from __future__ import annotations

import re
from collections.abc import Collection

_NOT_ZERO = re.compile(rb"[^\0]")
_BITS_OF = tuple(tuple(bit for bit in range(8) if byte >> bit & 1) for byte in range(256))


def list_members(bitmap: int) -> list[int]:
    """Return the members in ascending order: about 0.3 us each."""
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
