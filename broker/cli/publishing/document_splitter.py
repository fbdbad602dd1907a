"""Splitter of a byte stream into concatenated XML documents.

A document ends with its root element. Later comments are dropped or belong to the next document.
Only markup is examined, so any encoding that includes ASCII works. An XML declaration always begins
a new document, also after a malformed one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from broker.cli.publishing.publication import RawDocument, SourceLocation

#: A longer document is refused. The nodes' own limit is 1 MiB by default.
MAX_DOCUMENT: Final = 16 << 20

_BOM: Final = b"\xef\xbb\xbf"
_BLANK = re.compile(rb"(?:[ \t\r\n]|\xef\xbb\xbf)*")
#: Group 1 is `<` if this can not become a tag.
_TAG = re.compile(
    rb"<[^<>\"']*+(?:(?:\"[^\"<]*+(?:\"|(?=<))|'[^'<]*+(?:'|(?=<)))[^<>\"']*+)*+([<>])"
)
_SUBSET = (
    "the DOCTYPE has an internal subset, which no event may have: remove it; its declarations "
    "belong in the DTD of a type"
)
#: Group 1 is the internal subset, if any.
_DOCTYPE = re.compile(
    rb"<![^\[>\"']*+(?:(?:\"[^\"]*\"|'[^']*')[^\[>\"']*+)*+"
    rb"(\[(?>[^\]\"'<]|\"[^\"]*\"|'[^']*'|<!--.*?-->|<\?.*?\?>|<(?!!--|\?))*+\]\s*+)?>",
    re.DOTALL,
)
_NAME = re.compile(rb"[^ \t\r\n/>]*")
_DECLARATION = re.compile(rb"<\?xml[ \t\r\n]")
_SECTIONS: Final = ((b"<!--", b"-->"), (b"<![CDATA[", b"]]>"), (b"<?", b"?>"))
#: Bytes that show the kind of markup.
_MAX_OPENING: Final = len(b"<![CDATA[")
_PARTIAL_OPENING = re.compile(rb"<|<[!?].{0,6}", re.DOTALL)


class DocumentSplitter:
    """Returns each document when its last byte is there.

    Holds at most one document and one portion of input.
    """

    def __init__(self, source: str, max_document: int = MAX_DOCUMENT) -> None:
        self._source = source
        self._max = max_document
        self._buffer = b""
        self._start = 0
        """Start of the current document in the buffer, on line `_line`."""
        self._line = 1
        self._scanned = 0
        """The buffer was scanned up to here."""
        self._oversized_line = 0
        """First line of a document of which a part was dropped; 0: none."""
        self._in_text = False
        self._is_closed = False
        self._reset()

    def _reset(self) -> None:
        self._has_markup = self._has_doctype = self._has_subset = self._has_root = False
        self._depth = 0

    def feed(self, data: bytes) -> list[RawDocument]:
        if self._is_closed:
            return []
        self._buffer = self._buffer[self._start :] + data
        self._scanned -= self._start
        self._start = 0
        documents = list(self._scan(final=False))
        if len(self._buffer) - self._start > self._max:
            documents.extend(self._drop_oversized())
        return documents

    def close(self) -> list[RawDocument]:
        if self._is_closed:
            return []
        documents = list(self._scan(final=True))
        self._scanned = len(self._buffer)
        documents.extend(self._end_document())
        self._is_closed = True
        return documents

    def _scan(self, *, final: bool) -> Iterator[RawDocument]:
        while True:
            if not self._has_markup:
                yield from self._scan_between()
            at = self._buffer.find(b"<", self._scanned)
            if at < 0:
                if self._has_markup:
                    self._scanned = len(self._buffer)
                return
            self._scanned = at
            if not final and _PARTIAL_OPENING.fullmatch(self._buffer[at : at + _MAX_OPENING]):
                return
            if self._has_markup and _DECLARATION.match(self._buffer, at):
                yield from self._end_document()
            if not self._scan_token():
                return
            if self._has_root and self._depth <= 0:
                yield from self._end_document()

    def _scan_between(self) -> Iterator[RawDocument]:
        blank = _BLANK.match(self._buffer, self._scanned)
        self._scanned = self._scanned if blank is None else blank.end()
        self._advance()
        following = self._buffer.find(b"<", self._scanned)
        end = len(self._buffer) if following < 0 else following
        text = self._buffer[self._scanned : end]
        if text and not (following < 0 and _BOM.startswith(text)):
            if not self._in_text:
                shown = text[:40].decode("utf-8", "backslashreplace")
                yield RawDocument(self._location(), b"", f"text between documents: {shown!r}")
            self._scanned = end
            self._advance()
        self._in_text = following < 0 and (self._in_text or bool(text))

    def _scan_token(self) -> bool:
        """Return False if the markup's end is not there yet."""
        buffer, at = self._buffer, self._scanned
        for opening, closing in _SECTIONS:
            if buffer.startswith(opening, at):
                end = buffer.find(closing, at + len(opening))
                self._has_markup = True
                self._scanned = at if end < 0 else end + len(closing)
                return end >= 0
        self._has_markup = True
        if buffer.startswith(b"<!", at):
            doctype = _DOCTYPE.match(buffer, at)
            self._has_doctype = True
            if doctype is None:
                return False
            self._has_subset = self._has_subset or doctype[1] is not None
            self._scanned = doctype.end()
            return True
        is_root, self._has_root = not self._has_root, True
        tag = _TAG.match(buffer, at)
        if tag is None:
            return False
        self._scanned = tag.end()
        if tag[1] == b"<":
            self._scanned -= 1
            # Nothing is open: a document of its own; else broken text.
            self._depth = max(self._depth, 1)
        elif buffer.startswith(b"</", at):
            self._depth -= 1
        elif not buffer.startswith(b"/>", self._scanned - 2):
            self._depth += 1
            if is_root:
                self._skip_to_end(at)
        return True

    def _skip_to_end(self, root: int) -> None:
        """Skip the document ten times faster than tag by tag.

        Nothing may hide a tag, and the root's name is in no other start tag.
        """
        name = _NAME.match(self._buffer, root + 1)
        assert name is not None
        found = self._buffer.find(b"</" + name[0], self._scanned)
        end = self._buffer.find(b">", found) + 1
        if found < 0 or end <= 0 or self._buffer[found + 2 + len(name[0]) : end - 1].strip():
            return
        hiding = (b"<!", b"<?", b"<" + name[0])
        if all(self._buffer.find(opening, self._scanned, found) < 0 for opening in hiding):
            self._scanned, self._depth = end, 0

    def _end_document(self) -> Iterator[RawDocument]:
        """Yield the document that ends here, unless it is only comments."""
        if self._oversized_line:
            location = SourceLocation(self._source, self._oversized_line)
            yield RawDocument(location, b"", f"the document is larger than {self._max} bytes")
        elif self._scanned - self._start > self._max:
            yield RawDocument(
                self._location(), b"", f"the document is larger than {self._max} bytes"
            )
        elif self._has_root or self._has_doctype:
            problem = _SUBSET if self._has_subset else ""
            yield RawDocument(self._location(), self._buffer[self._start : self._scanned], problem)
        self._advance()
        self._oversized_line = 0
        self._reset()

    def _drop_oversized(self) -> Iterator[RawDocument]:
        """Drop the content of a document that is too large; track its structure."""
        self._oversized_line = self._oversized_line or self._line
        self._advance()
        if len(self._buffer) - self._start > self._max:
            self._is_closed = True
            self._buffer = b""
            yield RawDocument(
                self._location(),
                b"",
                f"a single tag, comment or section is larger than {self._max} bytes: "
                "it and the rest of the source are skipped",
            )

    def _advance(self) -> None:
        self._line += self._buffer.count(b"\n", self._start, self._scanned)
        self._start = self._scanned

    def _location(self) -> SourceLocation:
        return SourceLocation(self._source, self._line)
