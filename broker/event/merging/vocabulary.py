"""The words of TimeConstraint and MergeScheme, which the reference leaves to us (M34).

`docs/merging.md` says what they mean to a user.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import attrs

from broker.errors import ConfigurationError
from broker.event.envelope import Bundle, EventLinkage, Order

#: A longer constraint is no known word: nobody holds a live event for hours.
LONGEST_MS: Final = 3_600_000
#: What is remembered of a linkage is bounded: no publisher's long words fill a subscriber's memory.
LONGEST_WORD: Final = 80
LONGEST_BUNDLE_ID: Final = 256
LONGEST_ORDER: Final = 8_192
"""Characters of all names of a BundleOrder."""
#: An event that claims to be in more bundles waits in the first of them only.
MOST_BUNDLES: Final = 64
_UNITS: Final = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000}
_LENGTH = re.compile(r"([0-9]{1,9}) ?(ms|s|min|h)", re.ASCII)
_BUNDLE_PREFIX: Final = "bundle:"


class Scheme(enum.Enum):
    """MergeScheme. `NONE` and `arrival` are no schemes here: there is nothing to put in order."""

    TIME = "time"
    BUNDLE = "bundle"


class Kind(enum.Enum):
    """How a TimeConstraint says which time stamps are concurrent."""

    NONE = "none"
    WITHIN = "within"
    WINDOW = "window"


@attrs.frozen
class Constraint:
    """TimeConstraint: which time stamps are concurrent."""

    kind: Kind = Kind.NONE
    length_ms: int = 0

    def burst(self, time_ms: int) -> tuple[int, int]:
        """First and last time stamp (ms) of the burst that an event of `time_ms` opens."""
        if self.kind is Kind.WINDOW:
            start = time_ms - time_ms % self.length_ms
            return start, start + self.length_ms - 1
        return time_ms, time_ms + self.length_ms

    @property
    def seconds(self) -> float:
        """How far apart concurrent time stamps may be."""
        return self.length_ms / 1000

    def __str__(self) -> str:
        return (
            self.kind.value if self.kind is Kind.NONE else f"{self.kind.value} {self.length_ms}ms"
        )


@attrs.frozen(cache_hash=True)
class Rule:
    """What an event's BundleLinkage and BundleOrder ask for. Events of one rule are one merge."""

    scheme: Scheme
    constraint: Constraint = Constraint()
    order: tuple[Order, ...] = ()

    def lanes(self, stream: str, bundles: Iterable[Bundle]) -> list[int]:
        """The entries of the order that an event belongs to, by number; may be empty."""
        ids = {bundle.bundle_id for bundle in bundles}
        return [
            number
            for number, entry in enumerate(self.order)
            if (entry.name in ids if entry.is_bundle else entry.name == stream)
        ]


def read_constraint(text: str) -> Constraint | None:
    """What a TimeConstraint says; None for words that are not in the vocabulary."""
    words = " ".join(text.split()).lower()
    if words in ("", "none"):
        return Constraint()
    name, _, length = words.partition(" ")
    found = _LENGTH.fullmatch(length)
    if name not in ("within", "window") or found is None:
        return None
    milliseconds = int(found.group(1)) * _UNITS[found.group(2)]
    kind = Kind(name)
    if milliseconds > LONGEST_MS or (kind is Kind.WINDOW and not milliseconds):
        return None
    return Constraint(kind, milliseconds)


def rule_of(linkage: EventLinkage) -> tuple[Rule | None, tuple[str, ...]]:
    """The rule that an event's linkage asks for, None for none, and the words nobody knows.

    An event with an unknown word is not merged: it was accepted long ago, by nodes that do not
    look at these words, and holding it on a guess would be worse.
    """
    constraint, scheme = linkage.time_constraint or "", linkage.merge_scheme or ""
    long = [word for word in (scheme, constraint) if len(word) > LONGEST_WORD]
    if sum(len(entry.name) for entry in linkage.order) > LONGEST_ORDER:
        long.append("a BundleOrder that is too long")
    if long:
        return None, tuple(word[:LONGEST_WORD] for word in long)
    return _rule_of(constraint, scheme, linkage.order)


def bundles_of(linkage: EventLinkage) -> tuple[Bundle, ...]:
    """The bundles that a merge looks at: so many, with ids of limited length."""
    bundles = linkage.bundles[:MOST_BUNDLES]
    return tuple(each for each in bundles if len(each.bundle_id) <= LONGEST_BUNDLE_ID)


@lru_cache(maxsize=1024)
def _rule_of(
    constraint: str, scheme: str, order: tuple[Order, ...]
) -> tuple[Rule | None, tuple[str, ...]]:
    read = read_constraint(constraint)
    word = scheme.strip().lower()
    known = word in ("", "none", "arrival", "time", "bundle")
    unknown = (*(() if known else (scheme.strip(),)), *(() if read else (constraint.strip(),)))
    if unknown or read is None or word in ("none", "arrival"):
        return None, unknown
    if word == "":
        if read.kind is Kind.NONE:
            return None, ()
        word = "time"
    return Rule(Scheme(word), read, order), ()


def parse_rule(text: str, order: Iterable[str] = ()) -> Rule:
    """The rule that a subscriber writes: a scheme, with a constraint behind it if one is wanted.

    `time`, `time within 250ms`, `within 250ms`, `window 2s`, `bundle`. An entry of `order` is a
    stream, or `bundle:ID`. Raises `ConfigurationError` for anything else.
    """
    words = text.split()
    scheme = words.pop(0) if words and words[0].lower() in ("time", "bundle") else ""
    entries = tuple(_entry(each.strip()) for each in order)
    rule, unknown = _rule_of(" ".join(words), scheme, entries)
    if rule is None:
        raise ConfigurationError(
            f"{text[:80]!r} is no way to merge: 'time' or 'bundle', "
            "and 'within 250ms' or 'window 2s' if need be"
        )
    return rule


def _entry(text: str) -> Order:
    name = text.removeprefix(_BUNDLE_PREFIX)
    if not name:
        raise ConfigurationError("an entry of the merge's order is empty")
    return Order(name, is_bundle=text.startswith(_BUNDLE_PREFIX))
