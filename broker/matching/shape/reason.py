"""Why a valid document has no shape."""

from __future__ import annotations

import enum


class Reason(enum.Enum):
    """As the statistics name it."""

    SIZE = "size"
    #: The document is too long.

    SLOTS = "slots"
    #: It has too many values.

    CONSTANTS = "constants"
    #: It has too much else.

    MARKUP = "markup"
    #: A comment, an instruction, a CDATA section, a reference, a carriage return, a single-quoted
    #: attribute, a raw `>` or `"`, or a tab or line break in an attribute.

    ENCODING = "encoding"
    #: It declares another encoding than UTF-8.

    UNDECLARED = "undeclared"
    #: libxml2 accepts a name that the DTD does not declare as it is written.

    UNVERIFIED = "unverified"
    #: The parser's tree does not say what the document's bytes seemed to say.

    CREDIT = "credit"
    #: The type has learnt more shapes than its hits pay for.


class NotLearnable(Exception):
    """A document has no shape."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason
