"""Encodings of events and payloads."""

from __future__ import annotations

_NAMES = frozenset({"utf-8", "us-ascii", "ascii"})


def is_utf8(name: str) -> bool:
    """Return True if this encoding means UTF-8 or its subset ASCII."""
    return name.lower() in _NAMES
