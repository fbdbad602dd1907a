"""Reasons for which a valid document has no shape."""

from __future__ import annotations

import enum


class Reason(enum.Enum):
    """The values are the names in the statistics."""

    SIZE = "size"
    """The document is too long."""

    SLOTS = "slots"
    """It has too many values."""

    CONSTANTS = "constants"
    """It has too many constant bytes."""

    MARKUP = "markup"
    """A comment, processing instruction, CDATA section, reference, carriage return, single-quoted
    attribute, raw `>` or `"`, or a tab or line break in an attribute."""

    ENCODING = "encoding"
    """It declares another encoding than UTF-8."""

    UNDECLARED = "undeclared"
    """It uses a name that the DTD does not declare as written, but libxml2 accepts."""

    UNVERIFIED = "unverified"
    """The parser's tree differs from the one derived from the bytes."""

    CREDIT = "credit"
    """The type has learnt more shapes than its hits pay for."""


class NotLearnable(Exception):
    """Raised for a document that has no shape."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason
