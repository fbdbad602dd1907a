"""Checksums of stored data: 64 bits of XXH3, for events, heads of chunks, and values.

A checked value is `0xf5`, the checksum u64, and the value. The checksum covers the key too. It
detects damage, not forgery.
"""

from __future__ import annotations

import struct
from typing import TypeAlias

from xxhash import xxh3_64_intdigest

#: A view of LMDB's map is valid in its transaction only.
Buffer: TypeAlias = bytes | memoryview

TAG = 0xF5
_HEAD = struct.Struct(">BQ")
checksum_of = xxh3_64_intdigest


class ValueDamaged(Exception):
    """A stored value fails its checksum, or has none."""


def event_checksum(record: Buffer, document: Buffer) -> int:
    return checksum_of(document, checksum_of(record))


def add_checksum(key: bytes, value: bytes) -> bytes:
    return _HEAD.pack(TAG, checksum_of(value, checksum_of(key))) + value


def has_checksum(stored: Buffer) -> bool:
    """Return False for a value of format 3."""
    return len(stored) >= _HEAD.size and stored[0] == TAG


def verify_value(key: bytes, stored: Buffer) -> bytes:
    """Return the value. Raises `ValueDamaged`."""
    if not has_checksum(stored):
        raise ValueDamaged("a value without a checksum")
    _, checksum = _HEAD.unpack_from(stored)
    value = bytes(stored[_HEAD.size :])
    if checksum_of(value, checksum_of(key)) != checksum:
        raise ValueDamaged("a value that fails its checksum")
    return value
