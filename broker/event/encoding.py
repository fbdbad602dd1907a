"""The encoding of events and payloads."""

from __future__ import annotations

_NAMES = frozenset({"utf-8", "us-ascii", "ascii"})


def is_utf8(name: str) -> bool:
    """Whether an XML declaration with this encoding names UTF-8, or ASCII, which is part of it."""
    return name.lower() in _NAMES
