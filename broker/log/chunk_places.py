"""Places of chunks in the table of origins: they name the contents of a damaged chunk.

Key: `p`, the origin, a NUL, and the first place (`epoch u32, offset u64`). Checked value: `serial
u64, count u32, epoch u32, offset u64` with the last place, and the steps from offset to offset,
u32, or u64 if one is larger, unless all are 1. Format 3 stored the serial alone.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import lmdb

from broker.event.place import Mark
from broker.log.checksum import Buffer, ValueDamaged, add_checksum, has_checksum, verify_value
from broker.log.logged_event import LoggedEvent

PLACES_PREFIX = b"p"
_MARK = struct.Struct(">IQ")
_VALUE = struct.Struct(">QIIQ")
_SERIAL = struct.Struct(">Q")
_MOST_STEP = 2**32 - 1


@attrs.frozen
class ChunkPlaces:
    """Serials and places of one chunk; format 3 has only the first ones."""

    origin: str
    serial: int
    count: int
    """0 if it is unknown."""
    first: Mark
    last: Mark
    steps: tuple[int, ...] = ()

    @property
    def marks(self) -> tuple[Mark, ...]:
        """Epochs in between are that of the last place."""
        offsets = [self.first[1]]
        for step in self.steps or (1,) * (self.count - 1):
            offsets.append(offsets[-1] + step)
        return (self.first, *((self.last[0], offset) for offset in offsets[1:]))


def encode_places(key: bytes, chunk: Sequence[LoggedEvent]) -> bytes:
    first, last, count = chunk[0], chunk[-1], len(chunk)
    value = _VALUE.pack(first.serial, count, last.epoch, last.offset)
    if last.offset - first.offset != count - 1:
        offsets = [event.offset for event in chunk]
        steps = [after - before for before, after in zip(offsets, offsets[1:], strict=False)]
        form = "I" if max(steps) <= _MOST_STEP else "Q"
        value += struct.pack(f">{count - 1}{form}", *[max(step, 0) for step in steps])
    return add_checksum(key, value)


def decode_places(key: bytes, stored: Buffer) -> ChunkPlaces:
    """Raises `ValueDamaged`."""
    try:
        origin, first = split_key(key)
        if not has_checksum(stored):
            (serial,) = _SERIAL.unpack(stored)
            return ChunkPlaces(origin, serial, 0, first, first)
        value = verify_value(key, stored)
        serial, count, epoch, offset = _VALUE.unpack_from(value)
        steps: tuple[int, ...] = ()
        if len(value) > _VALUE.size:
            form = "I" if len(value) == _VALUE.size + 4 * (count - 1) else "Q"
            steps = struct.unpack_from(f">{count - 1}{form}", value, _VALUE.size)
        return ChunkPlaces(origin, serial, count, first, (epoch, offset), steps)
    except (struct.error, ValueError) as error:
        raise ValueDamaged(str(error)) from None


def places_prefix(origin: str) -> bytes:
    return PLACES_PREFIX + origin.encode() + b"\0"


def places_key(origin: str, mark: Mark) -> bytes:
    return b"".join((PLACES_PREFIX, origin.encode(), b"\0", _MARK.pack(*mark)))


def split_key(key: bytes) -> tuple[str, Mark]:
    """Raises ValueError, struct.error."""
    end = len(key) - _MARK.size
    epoch, offset = _MARK.unpack(key[end:])
    return key[1 : end - 1].decode(), (epoch, offset)


def all_places(txn: lmdb.Transaction, table: Any) -> Iterator[tuple[bytes, ChunkPlaces | None]]:
    """Yield all entries by key; None for a damaged one."""
    with txn.cursor(db=table) as cursor:
        more = cursor.set_range(PLACES_PREFIX)
        while more:
            key = bytes(cursor.key())
            if not key.startswith(PLACES_PREFIX):
                return
            try:
                yield key, decode_places(key, cursor.value())
            except ValueDamaged:
                yield key, None
            more = cursor.next()
