"""A bound on the names that libxml2 stores until the process ends (checklist T27).

Declared names are few. Undeclared ones are counted approximately, before the parse if they could
exceed a bound. Each holder, an account or a client, has a share, so that one of them can not use up
the names of all. Documents that would exceed the share are refused without a parse.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from itertools import chain
from typing import Final

import attrs

from broker.errors import TooManyNames
from broker.limit_registry import LimitRegistry

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
_TAG = re.compile(rb"<[?/!]?([^\s<>/?]+)")
_NAMESPACE = re.compile(rb"xmlns[^=<>]{0,200}=\s*(\"[^\"]*\"|'[^']*')")
_REFERENCE = re.compile(rb"&(?!(?:amp|lt|gt|quot|apos);)([^\s;&<>\"'#]+)")
#: Bits of the sketch that counts distinct names. A name sets one.
_SKETCH_BITS = 1 << 20
#: The shortest markup with a name, `&a;` or `<a>`.
_MIN_BYTES_A_NAME = 3
#: Names and bytes that a holder may use although the node's bound is reached.
RESERVED_NAMES: Final = 100
RESERVED_BYTES: Final = 4 * 1024
#: Further holders have one share together.
MAX_HOLDERS: Final = 10_000


@attrs.frozen
class NameLimits:
    """Bounds of undeclared names of the process, and of one holder."""

    max_names: int = 100_000
    max_bytes: int = 16 * 1024 * 1024
    max_names_of_holder: int = 10_000
    max_bytes_of_holder: int = 1024 * 1024


@attrs.define(eq=False)
class _Share:
    names: int = 0
    bytes: int = 0


_DEFAULT_LIMITS = NameLimits()


class NameWatch:
    """Counts undeclared names, of the process and of each holder.

    The holder "" has no share of its own: its documents were accepted by another node.
    """

    def __init__(
        self, limits: NameLimits = _DEFAULT_LIMITS, limit_registry: LimitRegistry | None = None
    ) -> None:
        self._limits = limits
        # Not a checksum: hostile names must not set one bit together.
        self._sketch = bytearray(_SKETCH_BITS // 8)
        self._total = _Share()
        self._shares: dict[str, _Share] = {}
        registry = limit_registry or LimitRegistry()
        self._total_limit = registry.add(
            "undeclared-names", bound=lambda: limits.max_names, used=lambda: self.count
        )
        self._share_limit = registry.add(
            "undeclared-names-of-account",
            per="account",
            bound=lambda: limits.max_names_of_holder,
            used=lambda: max((share.names for share in self._shares.values()), default=0),
        )

    @property
    def count(self) -> int:
        return self._total.names

    @property
    def is_guarding(self) -> bool:
        """True if the node's bound is reached: each holder has its reserve only."""
        limits, total = self._limits, self._total
        return total.names >= limits.max_names or total.bytes >= limits.max_bytes

    def may_exceed(self, document_bytes: int, holder: str) -> bool:
        """Return True if a document must be checked before the parse."""
        names, size = self._find_room(holder)
        return document_bytes > _MIN_BYTES_A_NAME * names or document_bytes > size

    def check_names(self, text: bytes, declared: Set[str], holder: str) -> None:
        """Raise `TooManyNames` if a text has more new names than its holder may use.

        It refers to predefined entities only.
        """
        names, size = self._find_room(holder)
        # Few tags and attributes can not have many names, and are counted much faster.
        marks = text.count(b"<") + text.count(b"=")
        if (marks <= names and len(text) <= size) or self._are_few(text, declared, names, size):
            return
        of_node = self._find_room("")
        limit = self._share_limit
        if names >= of_node[0] or size >= of_node[1]:
            limit = self._total_limit
        new: set[bytes] = set()
        for name in _iterate_names(text):
            if name in new or not self._is_new(name, declared):
                continue
            new.add(name)
            size -= len(name)
            if len(new) > names or size < 0:
                limit.count_reached()
                shown = name[:60].decode("utf-8", "replace")
                raise TooManyNames(
                    f"{shown!r} is not declared, and no more undeclared names are accepted from "
                    "this account until the node restarts"
                )

    def _are_few(self, text: bytes, declared: Set[str], names: int, size: int) -> bool:
        """Return True if the words that may be names are few: a fast upper bound."""
        words = set(_TAG.findall(text))
        for part in text.split(b"="):
            words.update(part.rsplit(None, 1)[-1:])
        words.update(_NAMESPACE.findall(text))
        new = [len(word) for word in words if self._is_new(word, declared)]
        instructions = text.count(b"<?")
        return len(new) + instructions <= names and sum(new) + 60 * instructions <= size

    def count_undeclared(self, text: bytes, declared: Set[str], holder: str = "") -> None:
        for name in chain(_iterate_names(text), _REFERENCE.findall(text)):
            if self._is_new(name, declared):
                self._count_name(name, holder)

    def _find_room(self, holder: str) -> tuple[int, int]:
        """Return how many names and bytes a holder may still use."""
        limits, total = self._limits, self._total
        names, size = limits.max_names - total.names, limits.max_bytes - total.bytes
        if holder:
            share = self._find_share(holder)
            names = max(names, RESERVED_NAMES - share.names)
            size = max(size, RESERVED_BYTES - share.bytes)
            names = min(names, limits.max_names_of_holder - share.names)
            size = min(size, limits.max_bytes_of_holder - share.bytes)
        return max(0, names), max(0, size)

    def _find_share(self, holder: str) -> _Share:
        share = self._shares.get(holder)
        if share is None:
            known = holder if len(self._shares) < MAX_HOLDERS else ""
            share = self._shares.setdefault(known, _Share())
        return share

    def _is_new(self, name: bytes, declared: Set[str]) -> bool:
        bit = hash(name) % _SKETCH_BITS
        return not self._sketch[bit >> 3] & 1 << (bit & 7) and (
            name.decode("utf-8", "replace") not in declared
        )

    def _count_name(self, name: bytes, holder: str) -> None:
        bit = hash(name) % _SKETCH_BITS
        self._sketch[bit >> 3] |= 1 << (bit & 7)
        for share in (self._total, *([self._find_share(holder)] if holder else ())):
            share.names += 1
            share.bytes += len(name)


def _iterate_names(text: bytes) -> Iterator[bytes]:
    """Yield at least all names that libxml2 stores, but for those of entities."""
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
    yield from _BLANKS_KEPT.findall(text)
