"""Where an offset lies in a text."""

from __future__ import annotations


def line_and_column(document: bytes, offset: int) -> tuple[int, int]:
    """Line and column of a byte, both from 1; the column counts characters."""
    line = document.count(b"\n", 0, offset) + 1
    start = document.rfind(b"\n", 0, offset) + 1
    return line, len(document[start:offset].decode("utf-8", "replace")) + 1
