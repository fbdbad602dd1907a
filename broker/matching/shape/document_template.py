"""A shape's template and its expression, which together extract values and verify a document.

The values formatted into the template must equal the document. They contain nothing that ends a
value, begins markup or is illegal in XML, so the tags are those of the learnt document. Repeats are
possessive, so all takes linear time.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import TypeAlias

_FullMatch: TypeAlias = Callable[[bytes], "re.Match[bytes] | None"]

#: Printable ASCII except `"`, `&`, `<` and `>`.
_VALUE = rb" !#-%'-;=?-~"
#: Tab and line break are excluded in attributes, where the parser replaces them by spaces.
_TEXT = rb"\t\n" + _VALUE
_BEYOND_ASCII = rb"\x7f-\xff"

#: U+FFFE and U+FFFF in UTF-8. Python decodes them, XML forbids them.
_NO_CHARACTERS = (b"\xef\xbf\xbe", b"\xef\xbf\xbf")

#: Allowed values of a text slot and of an attribute slot.
SLOT_TEXT = re.compile(rb"[%s%s]++" % (_TEXT, _BEYOND_ASCII))
SLOT_VALUE = re.compile(rb"[%s%s]*+" % (_VALUE, _BEYOND_ASCII))


class DocumentTemplate:
    """Constants with a slot between each two; `texts` has True for each text slot.

    A text is never empty; an attribute may be. Before `compile_expression` nothing matches, and
    documents above `max_bytes` never match.
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
        self._match_ascii: _FullMatch = lambda _: None
        self._match_non_ascii: _FullMatch | None = None

    @property
    def constant_bytes(self) -> int:
        return sum(map(len, self._constants))

    def extract_values(self, document: bytes) -> tuple[bytes, ...] | None:
        """Return the slot values in document order; None if the document does not match."""
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
        """Enable matches of documents with values like these: ASCII, or other characters too.

        Returns the bytes of memory used.
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
            # The first byte of a constant rejects most documents of other shapes early.
            parts.append(text if is_text else value)
            parts.append(b"%b.{%d}+" % (re.escape(constant[:1]), len(constant) - 1))
        return re.compile(b"".join(parts), re.DOTALL)


def _is_legal(document: bytes) -> bool:
    """Return True if the bytes are UTF-8 of characters that XML allows."""
    try:
        document.decode()
    except UnicodeDecodeError:
        return False
    return not any(sign in document for sign in _NO_CHARACTERS)
