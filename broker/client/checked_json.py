"""JSON files of a client's state folder, with a checksum of their content.

Files of earlier versions have no checksum and are accepted; earlier versions ignore it.
"""

from __future__ import annotations

import json
from typing import Any

from broker.log.checksum import checksum_of


def encode_checked(format_name: str, durables: dict[str, Any]) -> str:
    return json.dumps({"format": format_name, "durables": durables, "check": _checksum(durables)})


def decode_checked(data: bytes, format_name: str) -> dict[str, Any]:
    """Return the `durables` of a file that `encode_checked` wrote.

    Raises ValueError, TypeError, LookupError, AttributeError or RecursionError.
    """
    stored = json.loads(data)
    if stored["format"] != format_name:
        raise ValueError("another format")
    durables: dict[str, Any] = stored["durables"]
    if "check" in stored and stored["check"] != _checksum(durables):
        raise ValueError("the checksum does not match")
    if not stored.keys() <= {"format", "durables", "check"}:
        raise ValueError("unknown entries")
    durables.items()
    return durables


def _checksum(durables: dict[str, Any]) -> str:
    return f"{checksum_of(json.dumps(durables, sort_keys=True).encode()):016x}"
