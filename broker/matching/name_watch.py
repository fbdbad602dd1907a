"""A bound on the names that libxml2 stores until the process ends (checklist T27).

Declared names are few. Undeclared ones are counted, before the parse if they could exceed a bound.
Each holder, an account or a client, has a share, so that one of them can not use up the names of
all. Documents that would exceed the share are parsed separately (`broker.matching.separate_names`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from itertools import chain
from typing import Final

import attrs

from broker.limit_registry import Limit, LimitRegistry
from broker.rate_limited_log import RateLimitedLog

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

    The holder "" stands for events of other nodes and of logs.
    """

    def __init__(
        self,
        limits: NameLimits = _DEFAULT_LIMITS,
        limit_registry: LimitRegistry | None = None,
        log: RateLimitedLog | None = None,
    ) -> None:
        self._limits = limits
        self._log = log
        self._known: set[bytes] = set()
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

    def has_room(self, text: bytes, declared: Set[str], holder: str) -> bool:
        """Return False if a text has more new names than its holder may use.

        It refers to predefined entities only.
        """
        names, size = self._find_room(holder)
        # Few tags and attributes can not have many names, and are counted much faster.
        marks = text.count(b"<") + text.count(b"=")
        if (marks <= names and len(text) <= size) or self._are_few(text, declared, names, size):
            return True
        limits, total = self._limits, self._total
        limit = self._share_limit
        if names >= limits.max_names - total.names or size >= limits.max_bytes - total.bytes:
            limit = self._total_limit
        new: set[bytes] = set()
        for name in _iterate_names(text):
            if name in new or not self._is_new(name, declared):
                continue
            new.add(name)
            size -= len(name)
            if len(new) > names or size < 0:
                limit.count_reached()
                self._report(limit, holder)
                return False
        return True

    def _report(self, limit: Limit, holder: str) -> None:
        if self._log is None:
            return
        owner = holder or "events of other nodes and of logs"
        self._log.report(
            limit.name,
            holder,
            f"{owner}: the bound {limit.name} is reached. Documents with further names that no DTD "
            "declares are parsed in a thread of their own, which takes longer, until the node "
            "restarts",
        )

    def _are_few(self, text: bytes, declared: Set[str], names: int, size: int) -> bool:
        """Return True if the words that may be names are few: a fast upper bound."""
        words = set(_TAG.findall(text))
        for part in text.split(b"="):
            words.update(part.rsplit(None, 1)[-1:])
        words.update(_NAMESPACE.findall(text))
        # Each instruction may keep a run of blanks before it.
        instructions = text.count(b"<?")
        names -= instructions
        size -= 60 * instructions
        for word in words:
            if names < 0 or size < 0:
                return False
            if self._is_new(word, declared):
                names -= 1
                size -= len(word)
        return names >= 0 and size >= 0

    def count_undeclared(self, text: bytes, declared: Set[str], holder: str = "") -> None:
        for name in chain(_iterate_names(text), _REFERENCE.findall(text)):
            if self._is_new(name, declared):
                self._count_name(name, holder)

    def _find_room(self, holder: str) -> tuple[int, int]:
        """Return how many names and bytes a holder may still use."""
        limits, total = self._limits, self._total
        share = self._find_share(holder)
        names = max(limits.max_names - total.names, RESERVED_NAMES - share.names)
        size = max(limits.max_bytes - total.bytes, RESERVED_BYTES - share.bytes)
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
        return name not in self._known and name.decode("utf-8", "replace") not in declared

    def _count_name(self, name: bytes, holder: str) -> None:
        self._known.add(name)
        for share in (self._total, self._find_share(holder)):
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
