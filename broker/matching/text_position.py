"""Where something lies in a document, as errors tell it."""

from __future__ import annotations

from typing import cast

from lxml import etree


def line_and_column(document: bytes, offset: int) -> tuple[int, int]:
    """Line and column of a byte, both from 1; the column counts characters."""
    line = document.count(b"\n", 0, offset) + 1
    start = document.rfind(b"\n", 0, offset) + 1
    return line, len(document[start:offset].decode("utf-8", "replace")) + 1


def element_line(element: etree._Element) -> int:
    """The line of an element, 0 if it was not read from a document."""
    return cast("int | None", element.sourceline) or 0
