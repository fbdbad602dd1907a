"""A shape's template and its expression, which together extract values and verify a document.

The values formatted into the template must equal the document. They contain nothing that ends a
value, begins markup or is illegal in XML, so the tags are those of the learnt document. Repeats are
possessive, so all takes linear time.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

#: Returns the slot values of a document whose tags are those of the template, else None.
_Cut: TypeAlias = Callable[[bytes], "tuple[bytes, ...] | None"]

#: Slots of one part of an expression. Compiling takes about 30 microseconds for each slot.
PART_SLOTS: Final = 64

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
        "_cut_ascii",
        "_texts",
        "_cut_non_ascii",
        "_parts",
    )

    def __init__(self, constants: Sequence[bytes], texts: Sequence[bool], max_bytes: int) -> None:
        self._constants = tuple(constants)
        self._texts = tuple(texts)
        self._format = b"%b".join(constant.replace(b"%", b"%%") for constant in constants)
        self._max_bytes = max_bytes
        self._cut_ascii: _Cut = _cut_nothing
        self._cut_non_ascii: _Cut | None = None
        #: Parts of incomplete expressions, by the further characters that they allow.
        self._parts: dict[bytes, list[re.Pattern[bytes]]] = {}

    @property
    def constant_bytes(self) -> int:
        return sum(map(len, self._constants))

    def extract_values(self, document: bytes) -> tuple[bytes, ...] | None:
        """Return the slot values in document order; None if the document does not match."""
        values = self._cut_ascii(document)
        if values is None:
            return (
                None
                if self._cut_non_ascii is None
                else self._extract_non_ascii(self._cut_non_ascii, document)
            )
        if self._format % values != document or len(document) > self._max_bytes:
            return None
        return values

    def compile_expression(self, values: Sequence[bytes], max_slots: int) -> int:
        """Enable matches of documents with values like these: ASCII, or other characters too.

        Compiles parts with at least `max_slots` slots; further calls compile the rest. Returns the
        bytes of memory used.
        """
        is_plain = _are_plain(values)
        more = b"" if is_plain else _BEYOND_ASCII
        parts, used = self._parts.setdefault(more, []), 0
        first = PART_SLOTS * len(parts)
        for start in range(first, min(len(self._texts), first + max_slots) or 1, PART_SLOTS):
            parts.append(self._make_part(start, more))
            used += sys.getsizeof(parts[-1]) + len(parts[-1].pattern)
        if PART_SLOTS * len(parts) >= len(self._texts):
            del self._parts[more]
            cut = _cut_by_one(parts[0]) if len(parts) == 1 else _cut_by_parts(parts)
            if is_plain:
                self._cut_ascii = cut
            else:
                self._cut_non_ascii = cut
        return used

    def is_compiled_for(self, values: Sequence[bytes]) -> bool:
        """Return True if documents with values like these are compared."""
        if _are_plain(values):
            return self._cut_ascii is not _cut_nothing
        return self._cut_non_ascii is not None

    def _extract_non_ascii(self, cut: _Cut, document: bytes) -> tuple[bytes, ...] | None:
        values = cut(document)
        if values is None or len(document) > self._max_bytes or not _is_legal(document):
            return None
        return values if self._format % values == document else None

    def _make_part(self, start: int, more: bytes) -> re.Pattern[bytes]:
        """Return the expression of the slots from `start` with the constants behind them."""
        text, value = b"([%b%b]++)" % (_TEXT, more), b"([%b%b]*+)" % (_VALUE, more)
        parts = [] if start else [b".{%d}+" % len(self._constants[0])]
        end = start + PART_SLOTS
        constants = self._constants[start + 1 : end + 1]
        for constant, is_text in zip(constants, self._texts[start:end], strict=True):
            # The first byte of a constant rejects most documents of other shapes early.
            parts.append(text if is_text else value)
            parts.append(b"%b.{%d}+" % (re.escape(constant[:1]), len(constant) - 1))
        return re.compile(b"".join(parts), re.DOTALL)


def _are_plain(values: Sequence[bytes]) -> bool:
    return all(value.isascii() and b"\x7f" not in value for value in values)


def _cut_nothing(_: bytes) -> None:
    """For a template without an expression."""


def _cut_by_one(pattern: re.Pattern[bytes]) -> _Cut:
    fullmatch = pattern.fullmatch

    def cut(document: bytes) -> tuple[bytes, ...] | None:
        match = fullmatch(document)
        return None if match is None else match.groups()

    return cut


def _cut_by_parts(patterns: Sequence[re.Pattern[bytes]]) -> _Cut:
    """All repeats are possessive, so a part ends at one place at most."""

    def cut(document: bytes) -> tuple[bytes, ...] | None:
        values: list[bytes] = []
        at = 0
        for pattern in patterns:
            match = pattern.match(document, at)
            if match is None:
                return None
            values += match.groups()
            at = match.end()
        return tuple(values) if at == len(document) else None

    return cut


def _is_legal(document: bytes) -> bool:
    """Return True if the bytes are UTF-8 of characters that XML allows."""
    try:
        document.decode()
    except UnicodeDecodeError:
        return False
    return not any(sign in document for sign in _NO_CHARACTERS)
