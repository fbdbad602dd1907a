"""Checks on the bytes of an event, before the parse and for entities that the parser misses."""

from __future__ import annotations

import re

from broker.errors import ForbiddenMarkup, InvalidEvent, NotWellFormed, TooLarge
from broker.matching.document_limits import DocumentLimits, count_markup

_ENCODING_MARKS = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
    (b"<\x00\x00\x00", "UTF-32"),
    (b"\x00\x00\x00<", "UTF-32"),
    (b"<\x00", "UTF-16"),
    (b"\x00<", "UTF-16"),
)
_PREDEFINED = rb"(?:amp|lt|gt|quot|apos|#[0-9]+|#x[0-9a-fA-F]+);"
_REFERENCE = re.compile(rb"&(?!" + _PREDEFINED + rb")([^\s;&<>\"']*)")
_REFERENCE_OR_OPAQUE = re.compile(
    # An unclosed section reaches to the document's end, so the scan stays linear.
    rb"<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<\?.*?(?:\?>|\Z)|" + _REFERENCE.pattern,
    re.DOTALL,
)


def screen_document(document: bytes, limits: DocumentLimits) -> None:
    """Refuse unreadable documents: `TooLarge`, or `NotWellFormed` if not UTF-8."""
    if len(document) > limits.max_bytes:
        raise TooLarge(
            f"the document has {len(document)} bytes, at most {limits.max_bytes} are accepted"
        )
    if count_markup(document, limits.max_markup) > limits.max_markup:
        raise TooLarge(
            f"the document has more than {limits.max_markup} tags and attributes, which take "
            "longer to match than text"
        )
    if not document.isascii():
        _check_utf8(document)
    zero = document.find(b"\0")
    if zero >= 0:
        _check_encoding_mark(document)
        raise error_at(document, zero, "a NUL character is not allowed in XML")


def check_entity_references(document: bytes, start: int) -> None:
    """Refuse references to general entities in a well-formed document from offset `start`.

    With an external identifier, libxml2 drops `&foo;` in an attribute silently. Raises
    `ForbiddenMarkup`.
    """
    found = find_undefined_entity(document, start)
    if found is not None:
        offset, name = found
        text = f"the entity &{name}; is not one of the five predefined ones"
        raise error_at(document, offset, text, ForbiddenMarkup)


def find_undefined_entity(document: bytes, start: int) -> tuple[int, str] | None:
    """Return offset and name of the first undefined entity outside comments, CDATA and
    instructions."""
    if _REFERENCE.search(document, start) is None:
        return None
    # Attribute values can not contain '<', so comments never begin in one.
    for match in _REFERENCE_OR_OPAQUE.finditer(document, start):
        if match.group(1) is not None:
            return match.start(), match.group(1)[:60].decode("utf-8", "replace")
    return None


def _check_utf8(document: bytes) -> None:
    try:
        document.decode()
    except UnicodeDecodeError as error:
        _check_encoding_mark(document)
        text = f"the byte 0x{document[error.start]:02x} is not UTF-8 ({error.reason})"
        raise error_at(document, error.start, text) from None


def _check_encoding_mark(document: bytes) -> None:
    for mark, encoding in _ENCODING_MARKS:
        if document.startswith(mark):
            raise error_at(document, 0, f"the document is in {encoding}: only UTF-8 is accepted")


def line_and_column(document: bytes, offset: int) -> tuple[int, int]:
    """Return line and column of a byte, both from 1. The column counts characters."""
    line = document.count(b"\n", 0, offset) + 1
    start = document.rfind(b"\n", 0, offset) + 1
    return line, len(document[start:offset].decode("utf-8", "replace")) + 1


def error_at(
    document: bytes, offset: int, text: str, error: type[InvalidEvent] = NotWellFormed
) -> InvalidEvent:
    line, column = line_and_column(document, offset)
    return error(text, line=line, column=column)
