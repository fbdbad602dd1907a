"""Ranges that are larger than a packet: numbered parts (DCP D32)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from broker.errors import ProtocolError

_PART = struct.Struct(">HH")
PART_BYTES: Final = _PART.size
#: Bytes of unfinished ranges on one connection; the oldest is dropped.
MOST_UNFINISHED_BYTES: Final = 4 << 20
#: Bytes of one range: larger events come from the log.
MOST_RANGE_BYTES: Final = 1 << 20
#: Numbers of missing parts in a request.
MOST_MISSING: Final = 64
_MOST_PARTS: Final = 2**16 - 1


class PartKey(NamedTuple):
    sequence: int
    previous: int
    upto: int


class MissingParts(NamedTuple):
    """The parts of a range that have not come."""

    previous: int
    upto: int
    numbers: Sequence[int]


def split_parts(body: bytes, room: int) -> list[bytes]:
    """Return the bodies of the parts, each of at most `room` bytes.

    Raises ValueError if there were more parts than numbers.
    """
    size = room - PART_BYTES
    count = -(-len(body) // size)
    if count > _MOST_PARTS:
        raise ValueError(f"{len(body)} bytes are too many for parts of {size}")
    return [
        _PART.pack(number, count) + body[number * size : (number + 1) * size]
        for number in range(count)
    ]


class PartStore:
    """Puts the parts of ranges together."""

    def __init__(self, most_bytes: int = MOST_UNFINISHED_BYTES) -> None:
        self.dropped = 0
        """Unfinished ranges, for newer ones."""
        self._most_bytes = most_bytes
        self._unfinished: dict[PartKey, list[bytes | None]] = {}
        self._bytes = 0

    def add_part(self, key: PartKey, body: bytes) -> bytes | None:
        """Return the whole body when its last part has come.

        Raises `ProtocolError` for a part that contradicts the others of its range.
        """
        if len(body) <= PART_BYTES:
            raise ProtocolError(f"a part of {len(body)} bytes")
        number, count = _PART.unpack_from(body)
        parts = self._unfinished.get(key)
        if number >= count or (parts is not None and len(parts) != count):
            raise ProtocolError(f"part {number} of {count}, of another number of parts")
        if parts is None:
            parts = self._unfinished[key] = [None] * count
            self._bytes += count
        if parts[number] is None:
            parts[number] = body[PART_BYTES:]
            self._bytes += len(body)
        if None not in parts:
            self.remove(key)
            return b"".join([each for each in parts if each is not None])
        while self._bytes > self._most_bytes:
            self.remove(next(iter(self._unfinished)))
            self.dropped += 1
        return None

    def remove(self, key: PartKey) -> None:
        for each in self._unfinished.pop(key):
            self._bytes -= 0 if each is None else len(each) + PART_BYTES
            self._bytes -= 1

    def remove_until(self, index: int, an: int) -> None:
        """Drop the unfinished ranges of a sequence up to an AN."""
        for key in [k for k in self._unfinished if k.sequence == index and k.upto <= an]:
            self.remove(key)

    def find_missing(self, index: int) -> MissingParts | None:
        """Return the missing parts of the first unfinished range of a sequence."""
        keys = [key for key in self._unfinished if key.sequence == index]
        if not keys:
            return None
        key = min(keys, key=lambda each: each.previous)
        numbers = [n for n, each in enumerate(self._unfinished[key]) if each is None]
        return MissingParts(key.previous, key.upto, numbers[:MOST_MISSING])
