"""A shape's template and its expression: together they cut a document and prove it equal.

The expression cuts the slots: it knows how long each constant is, with which byte it begins, and
which bytes a value may have. The values poured back into the template must give the document. So
its constants are those of the document that was learnt, and its values hold nothing that ends a
value, begins markup, or is no character of XML: it has the same tags.

Repeats are possessive: a match takes time in proportion to the document, and so does a failure.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import TypeAlias

_FullMatch: TypeAlias = Callable[[bytes], "re.Match[bytes] | None"]

#: Printable ASCII but for `"`, `&`, `<` and `>`.
_VALUE = rb" !#-%'-;=?-~"
#: A tab or a line break in an attribute becomes a space: the parser's business.
_TEXT = rb"\t\n" + _VALUE
_BEYOND_ASCII = rb"\x7f-\xff"

#: U+FFFE and U+FFFF in UTF-8; Python decodes them, XML forbids them.
_NO_CHARACTERS = (b"\xef\xbf\xbe", b"\xef\xbf\xbf")

#: A text that may be a slot; an attribute's value that may be one.
SLOT_TEXT = re.compile(rb"[%s%s]++" % (_TEXT, _BEYOND_ASCII))
SLOT_VALUE = re.compile(rb"[%s%s]*+" % (_VALUE, _BEYOND_ASCII))


class DocumentTemplate:
    """Constants with a slot between each two; `texts` says of each slot whether it is a text.

    A text is never empty (an empty one is no node), an attribute may be. Nothing is cut before
    `compile` was called. Documents of more than `max_bytes` are not equal to any template.
    """

    __slots__ = (
        "_constants",
        "_format",
        "_max_bytes",
        "_match_ascii",
        "_texts",
        "_match_non_ascii",
    )

    def __init__(self, constants: Sequence[bytes], texts: Sequence[bool], max_bytes: int) -> None:
        self._constants = tuple(constants)
        self._texts = tuple(texts)
        self._format = b"%b".join(constant.replace(b"%", b"%%") for constant in constants)
        self._max_bytes = max_bytes
        self._match_ascii: _FullMatch = _no_match
        self._match_non_ascii: _FullMatch | None = None

    @property
    def constant_bytes(self) -> int:
        """The length of all constants."""
        return sum(map(len, self._constants))

    def extract_values(self, document: bytes) -> tuple[bytes, ...] | None:
        """The values of the slots in document order; None for a document that is not equal."""
        match = self._match_ascii(document)
        if match is None:
            return (
                None
                if self._match_non_ascii is None
                else self._extract_non_ascii(self._match_non_ascii, document)
            )
        values: tuple[bytes, ...] = match.groups()
        if self._format % values != document or len(document) > self._max_bytes:
            return None
        return values

    def compile_expression(self, values: Sequence[bytes]) -> int:
        """Make documents with values like these be cut: printable ASCII, or beyond it.

        A step of its own, since it takes about 30 microseconds for each slot. Returns the bytes of
        memory that it takes.
        """
        is_plain = all(value.isascii() and b"\x7f" not in value for value in values)
        pattern = self._make_expression(b"" if is_plain else _BEYOND_ASCII)
        if is_plain:
            self._match_ascii = pattern.fullmatch
        else:
            self._match_non_ascii = pattern.fullmatch
        return sys.getsizeof(pattern) + len(pattern.pattern)

    def _extract_non_ascii(
        self, fullmatch: _FullMatch, document: bytes
    ) -> tuple[bytes, ...] | None:
        match = fullmatch(document)
        if match is None or len(document) > self._max_bytes or not _is_legal(document):
            return None
        values: tuple[bytes, ...] = match.groups()
        return values if self._format % values == document else None

    def _make_expression(self, more: bytes) -> re.Pattern[bytes]:
        text, value = b"([%b%b]++)" % (_TEXT, more), b"([%b%b]*+)" % (_VALUE, more)
        parts = [b".{%d}+" % len(self._constants[0])]
        for constant, is_text in zip(self._constants[1:], self._texts, strict=True):
            # With its first byte most documents of other shapes fail early.
            parts.append(text if is_text else value)
            parts.append(b"%b.{%d}+" % (re.escape(constant[:1]), len(constant) - 1))
        return re.compile(b"".join(parts), re.DOTALL)


def _no_match(_document: bytes) -> None:
    return None


def _is_legal(document: bytes) -> bool:
    """Whether bytes beyond ASCII are UTF-8 and characters of XML."""
    try:
        document.decode()
    except UnicodeDecodeError:
        return False
    return not any(sign in document for sign in _NO_CHARACTERS)
