"""A bound on the names that libxml2 stores until the process ends (checklist T27).

Refused documents cause the growth, so their undeclared names are counted approximately. With too
many the node *guards*: it refuses undeclared names before the parse.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Set

from broker.matching.screening import find_undefined_entity

_MARKUP = re.compile(
    rb"<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)"
    rb"|<\?(?P<target>[^\s?>]*).*?(?:\?>|\Z)"
    rb"|</(?P<end>[^\s>]*)"
    rb"|<(?P<start>[^\s/>]*)(?P<rest>(?:[^>\"']++|\"[^\"]*+\"|'[^']*+')*+)",
    re.DOTALL,
)
_QUOTED = re.compile(rb"=\s*(\"[^\"]*+\"|'[^']*+')")
_WORD = re.compile(rb"[^\s=/]+")
_NAMESPACE_VALUE = re.compile(rb"(?<=[\s\"'])xmlns[^\s=\"']*+\s*+=\s*+(\"[^\"]*+\"|'[^']*+')")
_BLANKS_KEPT = re.compile(rb">([ \t\r\n]{2,59})<\?")
_REFERENCE = re.compile(rb"&([^\s;&<>\"'#]+)")
#: Bits of the sketch that counts distinct names. A name sets one.
_SKETCH_BITS = 1 << 20


class NameWatch:
    """Counts undeclared names, up to `max_names` of `max_bytes` in total."""

    def __init__(self, max_names: int = 100_000, max_bytes: int = 16 * 1024 * 1024) -> None:
        self._max_names = max_names
        self._max_bytes = max_bytes
        self._sketch = bytearray(_SKETCH_BITS // 8)
        self._bytes = 0
        self.count = 0

    @property
    def is_guarding(self) -> bool:
        """True if documents must be scanned before the parse."""
        return self.count >= self._max_names or self._bytes >= self._max_bytes

    def count_undeclared(self, text: bytes, declared: Set[str]) -> None:
        for name in _iterate_names(text):
            if self.is_guarding:
                return
            if name.decode("utf-8", "replace") not in declared:
                self._count_name(name)

    def find_undeclared(self, text: bytes, declared: Set[str]) -> str | None:
        """Return the first undeclared name in the text or None. In malformed text any word may be
        one."""
        for match in _MARKUP.finditer(text):
            target, end, start, rest = match.group("target", "end", "start", "rest")
            if target is not None:
                return f"<?{_shown(target)}?>"
            for word in _WORD.findall(end or b""):
                if word.decode("utf-8", "replace") not in declared:
                    return _shown(word)
            if start is None:
                continue
            for word in (start, *_WORD.findall(_QUOTED.sub(b" ", rest))):
                if word.decode("utf-8", "replace") not in declared:
                    return _shown(word)
        reference = find_undefined_entity(text, 0)
        return None if reference is None else f"&{reference[1]};"

    def _count_name(self, name: bytes) -> None:
        bit = zlib.crc32(name) % _SKETCH_BITS
        byte, mask = bit >> 3, 1 << (bit & 7)
        if not self._sketch[byte] & mask:
            self._sketch[byte] |= mask
            self.count += 1
            self._bytes += len(name)


def _iterate_names(text: bytes) -> Iterator[bytes]:
    """Yield at least all names that libxml2 stores."""
    for match in _MARKUP.finditer(text):
        target, end, start, rest = match.group("target", "end", "start", "rest")
        if target:
            yield target
        elif end:
            yield end
        elif start:
            yield start
            yield from _WORD.findall(_QUOTED.sub(b" ", rest))
            yield from _NAMESPACE_VALUE.findall(rest)
    yield from _REFERENCE.findall(text)
    yield from _BLANKS_KEPT.findall(text)


def _shown(name: bytes) -> str:
    return name[:60].decode("utf-8", "replace")
