"""Encodings of events and payloads."""

from __future__ import annotations

_NAMES = frozenset({"utf-8", "us-ascii", "ascii"})


def is_utf8(name: str) -> bool:
    """Return True for UTF-8 and its subset ASCII."""
    return name.lower() in _NAMES
