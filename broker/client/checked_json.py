"""JSON files of a client's state folder, with a checksum.

Files of earlier versions have none and are accepted.
"""

from __future__ import annotations

import json
from typing import Any, Final, TypeVar

from msgspec import UNSET, Struct, UnsetType

from broker.errors import ProtocolError
from broker.log.checksum import checksum_of
from broker.wire.codec import Schema

T = TypeVar("T")


class _File(Struct, forbid_unknown_fields=True):
    format: str
    durables: dict[str, Any]
    check: str | UnsetType = UNSET


_FILE: Final = Schema[_File](_File, "file")


def encode_checked(format_name: str, durables: dict[str, Any]) -> str:
    return json.dumps({"format": format_name, "durables": durables, "check": _checksum(durables)})


def decode_checked(data: bytes, format_name: str, schema: Schema[T]) -> T:
    """Raises `ProtocolError`."""
    try:
        stored = _FILE.convert(json.loads(data))
        checksum = _checksum(stored.durables)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"malformed file: {error}") from None
    if stored.format != format_name:
        raise ProtocolError("another format")
    if stored.check not in (UNSET, checksum):
        raise ProtocolError("the checksum does not match")
    return schema.convert(stored.durables)


def _checksum(durables: dict[str, Any]) -> str:
    return f"{checksum_of(json.dumps(durables, sort_keys=True).encode()):016x}"
