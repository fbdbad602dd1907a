"""A stream of bytes cut into the XML documents that stand in it, one behind the other.

Nothing need separate them: a document ends with its root element, and comments behind that are
dropped or belong to the next one. Only markup is looked at, so any encoding will do in which ASCII
is ASCII. Whether a document is well-formed is not decided here; one that is not does little harm to
those behind it, since an XML declaration always begins a new document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from broker.cli.publishing.publication import Origin, Piece

#: A longer document is told and passed over. The nodes' own limit is 1 MiB unless configured.
MAX_DOCUMENT: Final = 16 << 20

_BOM: Final = b"\xef\xbb\xbf"
_BLANK = re.compile(rb"(?:[ \t\r\n]|\xef\xbb\xbf)*")
#: Group 1 is `<` where this can not become a tag: neither it nor a value in it may hold one.
_TAG = re.compile(
    rb"<[^<>\"']*+(?:(?:\"[^\"<]*+(?:\"|(?=<))|'[^'<]*+(?:'|(?=<)))[^<>\"']*+)*+([<>])"
)
#: Group 1 is the internal subset, if there is one.
_DOCTYPE = re.compile(
    rb"<![^\[>\"']*+(?:(?:\"[^\"]*\"|'[^']*')[^\[>\"']*+)*+"
    rb"(\[(?>[^\]\"'<]|\"[^\"]*\"|'[^']*'|<!--.*?-->|<\?.*?\?>|<(?!!--|\?))*+\]\s*+)?>",
    re.DOTALL,
)
_NAME = re.compile(rb"[^ \t\r\n/>]*")
_DECLARATION = re.compile(rb"<\?xml[ \t\r\n]")
_SECTIONS: Final = ((b"<!--", b"-->"), (b"<![CDATA[", b"]]>"), (b"<?", b"?>"))
#: So many bytes tell what a `<` begins, and fewer unless it is one of these.
_ENOUGH: Final = len(b"<![CDATA[")
_UNDECIDED = re.compile(rb"<|<[!?].{0,6}", re.DOTALL)


class DocumentSplitter:
    """Takes the bytes as they come; gives each document when its last byte is there.

    Holds no more than one document and one portion of input.
    """

    def __init__(self, source: str, max_document: int = MAX_DOCUMENT) -> None:
        self._source = source
        self._max = max_document
        self._buffer = b""
        self._start = 0
        """Where the present document begins in the buffer, on line `_line`."""
        self._line = 1
        self._at = 0
        """Up to here the buffer was looked at."""
        self._too_large = 0
        """The line where a document began of which a part was dropped already; 0: none."""
        self._in_text = False
        self._over = False
        self._begin()

    def _begin(self) -> None:
        self._markup = self._doctype = self._subset = self._root = False
        self._depth = 0

    def feed(self, data: bytes) -> list[Piece]:
        """The documents that end in these bytes."""
        if self._over:
            return []
        self._buffer = self._buffer[self._start :] + data
        self._at -= self._start
        self._start = 0
        pieces = list(self._scan(final=False))
        if len(self._buffer) - self._start > self._max:
            pieces.extend(self._shed())
        return pieces

    def close(self) -> list[Piece]:
        """There is no more: what is left, which is the beginning of a document, or nothing."""
        if self._over:
            return []
        pieces = list(self._scan(final=True))
        self._at = len(self._buffer)
        pieces.extend(self._end())
        self._over = True
        return pieces

    def _scan(self, *, final: bool) -> Iterator[Piece]:
        while True:
            if not self._markup:
                yield from self._between()
            at = self._buffer.find(b"<", self._at)
            if at < 0:
                if self._markup:
                    self._at = len(self._buffer)
                return
            self._at = at
            if not final and _UNDECIDED.fullmatch(self._buffer[at : at + _ENOUGH]):
                return
            if self._markup and _DECLARATION.match(self._buffer, at):
                yield from self._end()
            if not self._token():
                return
            if self._root and self._depth <= 0:
                yield from self._end()

    def _between(self) -> Iterator[Piece]:
        """Pass the white space between two documents, and tell what else stands there."""
        blank = _BLANK.match(self._buffer, self._at)
        self._at = self._at if blank is None else blank.end()
        self._advance()
        following = self._buffer.find(b"<", self._at)
        end = len(self._buffer) if following < 0 else following
        text = self._buffer[self._at : end]
        if text and not (following < 0 and _BOM.startswith(text)):
            if not self._in_text:
                shown = text[:40].decode("utf-8", "backslashreplace")
                yield Piece(self._origin(), b"", f"text between documents: {shown!r}")
            self._at = end
            self._advance()
        self._in_text = following < 0 and (self._in_text or bool(text))

    def _token(self) -> bool:
        """Pass the markup at `_at`; False if its end is not there yet."""
        buffer, at = self._buffer, self._at
        for opening, closing in _SECTIONS:
            if buffer.startswith(opening, at):
                end = buffer.find(closing, at + len(opening))
                self._markup = True
                self._at = at if end < 0 else end + len(closing)
                return end >= 0
        self._markup = True
        if buffer.startswith(b"<!", at):
            doctype = _DOCTYPE.match(buffer, at)
            self._doctype = True
            if doctype is None:
                return False
            self._subset = self._subset or doctype[1] is not None
            self._at = doctype.end()
            return True
        is_root, self._root = not self._root, True
        tag = _TAG.match(buffer, at)
        if tag is None:
            return False
        self._at = tag.end()
        if tag[1] == b"<":
            self._at -= 1
            # Nothing is open, so this is a broken document of its own; else it is broken text.
            self._depth = max(self._depth, 1)
        elif buffer.startswith(b"</", at):
            self._depth -= 1
        elif not buffer.startswith(b"/>", self._at - 2):
            self._depth += 1
            if is_root:
                self._leap(at)
        return True

    def _leap(self, root: int) -> None:
        """Pass all of the document at once if its end can be found without looking at each tag.

        That makes it ten times faster, and is sound where nothing can hide a tag and the root's
        name stands in no other start tag.
        """
        name = _NAME.match(self._buffer, root + 1)
        assert name is not None
        found = self._buffer.find(b"</" + name[0], self._at)
        end = self._buffer.find(b">", found) + 1
        if found < 0 or end <= 0 or self._buffer[found + 2 + len(name[0]) : end - 1].strip():
            return
        hiding = (b"<!", b"<?", b"<" + name[0])
        if all(self._buffer.find(opening, self._at, found) < 0 for opening in hiding):
            self._at, self._depth = end, 0

    def _end(self) -> Iterator[Piece]:
        """The document ends at `_at`: give it, unless it is nothing but comments."""
        if self._too_large:
            origin = Origin(self._source, self._too_large)
            yield Piece(origin, b"", f"the document is larger than {self._max} bytes")
        elif self._at - self._start > self._max:
            yield Piece(self._origin(), b"", f"the document is larger than {self._max} bytes")
        elif self._root or self._doctype:
            problem = "the DOCTYPE has an internal subset" if self._subset else ""
            yield Piece(self._origin(), self._buffer[self._start : self._at], problem)
        self._advance()
        self._too_large = 0
        self._begin()

    def _shed(self) -> Iterator[Piece]:
        """The document is too large to be kept: only its structure is followed on."""
        self._too_large = self._too_large or self._line
        self._advance()
        if len(self._buffer) - self._start > self._max:
            self._over = True
            self._buffer = b""
            yield Piece(
                self._origin(),
                b"",
                f"a single tag, comment or section is larger than {self._max} bytes: "
                "it and what is behind it are passed over",
            )

    def _advance(self) -> None:
        self._line += self._buffer.count(b"\n", self._start, self._at)
        self._start = self._at

    def _origin(self) -> Origin:
        return Origin(self._source, self._line)
