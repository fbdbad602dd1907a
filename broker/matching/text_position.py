"""Positions in a document, for error messages."""

from __future__ import annotations

from typing import cast

from lxml import etree


def line_and_column(document: bytes, offset: int) -> tuple[int, int]:
    """Return line and column of a byte, both from 1. The column counts characters."""
    line = document.count(b"\n", 0, offset) + 1
    start = document.rfind(b"\n", 0, offset) + 1
    return line, len(document[start:offset].decode("utf-8", "replace")) + 1


def element_line(element: etree._Element) -> int:
    return cast("int | None", element.sourceline) or 0
