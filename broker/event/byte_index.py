"""Byte offsets of elements, from expat's byte index.

expat knows fewer name characters than libxml2. If it fails, a second pass replaces all non-ASCII
characters: markup is ASCII in UTF-8.
"""

from __future__ import annotations

import codecs
from xml.parsers import expat

from broker.errors import BadEnvelope, ForbiddenMarkup, NotWellFormed

_BOM = codecs.BOM_UTF8
#: Each byte above 127 is a letter of its own.
_LETTERS = "".join(chr(byte if byte < 0x80 else 0x4E00 + byte) for byte in range(256))


def start_of_element(document: bytes, number: int) -> int:
    """Return the offset of the `<` of element `number`, from 0 in document order.

    Raises `InvalidEvent` without such an element.
    """
    return _find_offset(document, number, 0)


def end_of_element(document: bytes, number: int, count: int) -> int:
    """Return the offset behind the last `>` of element `number`, with `count` elements.

    Raises `InvalidEvent` without such an element.
    """
    return _find_offset(document, number, count)


def _find_offset(document: bytes, number: int, count: int) -> int:
    try:
        return _Pass(number, count).run(document)
    except expat.ExpatError as error:
        if document.isascii():
            raise _parse_error(error) from None
    bom = len(_BOM) if document.startswith(_BOM) else 0
    letters = codecs.charmap_decode(document[bom:], "strict", _LETTERS)[0].encode()
    try:
        found = _Pass(number, count).run(letters)
    except expat.ExpatError as error:
        raise _parse_error(error) from None
    return bom + len(letters[:found].decode())


def _parse_error(error: expat.ExpatError) -> NotWellFormed:
    return NotWellFormed(expat.ErrorString(error.code), line=error.lineno, column=error.offset + 1)


class _Found(Exception):
    """Ends a pass before the document's end."""


class _Pass:
    """One parse, up to an element's start or end.

    expat fetches external entities only through a handler, and none is set.
    """

    def __init__(self, number: int, count: int) -> None:
        """`count` is 0 for the start, else the number of elements that end with it."""
        self._before = number
        self._open = count
        self._found = -1
        self._parser = parser = expat.ParserCreate("utf-8")
        parser.StartDoctypeDeclHandler = self._doctype
        parser.StartElementHandler = self._start_tag

    def run(self, document: bytes) -> int:
        try:
            self._parser.Parse(document, True)
        except _Found:
            return self._found
        finally:
            # Otherwise the parser and its handlers stay until a garbage collection.
            del self._parser
        raise BadEnvelope("the event has too few elements")

    def _doctype(
        self, _name: str, _system: str | None, _public: str | None, has_internal_subset: bool
    ) -> None:
        if has_internal_subset:
            raise ForbiddenMarkup("the DOCTYPE has an internal subset")

    def _start_tag(self, _name: str, _attributes: object) -> None:
        if self._before:
            self._before -= 1
        elif not self._open:
            self._stop("")
        else:
            self._parser.StartElementHandler = None
            self._parser.EndElementHandler = self._end_tag

    def _end_tag(self, _name: str) -> None:
        self._open -= 1
        if not self._open:
            # For an empty element the index lies behind it: use the next token.
            self._parser.EndElementHandler = None
            self._parser.DefaultHandler = self._stop

    def _stop(self, _text: str) -> None:
        self._found = self._parser.CurrentByteIndex
        raise _Found
