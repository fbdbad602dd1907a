"""Words of TimeConstraint and MergeScheme, which the reference leaves open (M34)."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import attrs

from broker.errors import ConfigurationError
from broker.event.envelope import Bundle, EventLinkage, Order

#: A longer constraint is unknown: live events are never held for hours.
MAX_CONSTRAINT_MS: Final = 3_600_000
#: Bounds of a linkage, for a subscriber's memory.
MAX_WORD_LENGTH: Final = 80
MAX_BUNDLE_ID_LENGTH: Final = 256
MAX_ORDER_LENGTH: Final = 8_192
"""Characters of all names of a BundleOrder."""
#: An event's further bundles are ignored.
MAX_BUNDLES_PER_EVENT: Final = 64
_UNITS: Final = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000}
_LENGTH = re.compile(r"([0-9]{1,9}) ?(ms|s|min|h)", re.ASCII)
_BUNDLE_PREFIX: Final = "bundle:"


class Scheme(enum.Enum):
    """MergeScheme, without `none` and `arrival`: they put nothing in order."""

    TIME = "time"
    BUNDLE = "bundle"


class ConstraintKind(enum.Enum):
    NONE = "none"
    WITHIN = "within"
    WINDOW = "window"


@attrs.frozen
class Constraint:
    """TimeConstraint: defines which time stamps are concurrent."""

    kind: ConstraintKind = ConstraintKind.NONE
    length_ms: int = 0

    def burst_bounds(self, time_ms: int) -> tuple[int, int]:
        """Return the first and last time stamp (ms) of a burst."""
        if self.kind is ConstraintKind.WINDOW:
            start = time_ms - time_ms % self.length_ms
            return start, start + self.length_ms - 1
        return time_ms, time_ms + self.length_ms

    @property
    def seconds(self) -> float:
        return self.length_ms / 1000

    def __str__(self) -> str:
        return (
            self.kind.value
            if self.kind is ConstraintKind.NONE
            else f"{self.kind.value} {self.length_ms}ms"
        )


@attrs.frozen(cache_hash=True)
class Rule:
    """Merge rule of an event. Equal rules are one merge."""

    scheme: Scheme
    constraint: Constraint = Constraint()
    order: tuple[Order, ...] = ()

    def lanes(self, stream: str, bundles: Iterable[Bundle]) -> list[int]:
        """Return the numbers of entries that include the event."""
        ids = {bundle.bundle_id for bundle in bundles}
        return [
            number
            for number, entry in enumerate(self.order)
            if (entry.name in ids if entry.is_bundle else entry.name == stream)
        ]


def parse_constraint(text: str) -> Constraint | None:
    """Return the constraint; None for an unknown word."""
    words = " ".join(text.split()).lower()
    if words in ("", "none"):
        return Constraint()
    name, _, length = words.partition(" ")
    found = _LENGTH.fullmatch(length)
    if name not in ("within", "window") or found is None:
        return None
    milliseconds = int(found.group(1)) * _UNITS[found.group(2)]
    kind = ConstraintKind(name)
    if milliseconds > MAX_CONSTRAINT_MS or (kind is ConstraintKind.WINDOW and not milliseconds):
        return None
    return Constraint(kind, milliseconds)


def rule_of(linkage: EventLinkage) -> tuple[Rule | None, tuple[str, ...]]:
    """Return the rule (None: not merged), and unknown words.

    An event with an unknown word is not merged: holding it on a guess would be worse.
    """
    constraint, scheme = linkage.time_constraint or "", linkage.merge_scheme or ""
    long = [word for word in (scheme, constraint) if len(word) > MAX_WORD_LENGTH]
    if sum(len(entry.name) for entry in linkage.order) > MAX_ORDER_LENGTH:
        long.append("a BundleOrder that is too long")
    if long:
        return None, tuple(word[:MAX_WORD_LENGTH] for word in long)
    return _rule_of(constraint, scheme, linkage.order)


def limited_bundles(linkage: EventLinkage) -> tuple[Bundle, ...]:
    bundles = linkage.bundles[:MAX_BUNDLES_PER_EVENT]
    return tuple(each for each in bundles if len(each.bundle_id) <= MAX_BUNDLE_ID_LENGTH)


@lru_cache(maxsize=1024)
def _rule_of(
    constraint: str, scheme: str, order: tuple[Order, ...]
) -> tuple[Rule | None, tuple[str, ...]]:
    read = parse_constraint(constraint)
    word = scheme.strip().lower()
    known = word in ("", "none", "arrival", "time", "bundle")
    unknown = (*(() if known else (scheme.strip(),)), *(() if read else (constraint.strip(),)))
    if unknown or read is None or word in ("none", "arrival"):
        return None, unknown
    if word == "":
        if read.kind is ConstraintKind.NONE:
            return None, ()
        word = "time"
    return Rule(Scheme(word), read, order), ()


def parse_rule(text: str, order: Iterable[str] = ()) -> Rule:
    """Return a rule such as `time`, `time within 250ms`, `within 250ms`, `window 2s`, `bundle`.

    An entry of `order` is a stream, or `bundle:ID`. Raises `ConfigurationError`.
    """
    words = text.split()
    scheme = words.pop(0) if words and words[0].lower() in ("time", "bundle") else ""
    entries = tuple(_parse_order_entry(each.strip()) for each in order)
    rule, unknown = _rule_of(" ".join(words), scheme, entries)
    if rule is None:
        raise ConfigurationError(
            f"{text[:80]!r} is not a merge rule: write 'time' or 'bundle', "
            "optionally with 'within 250ms' or 'window 2s'"
        )
    return rule


def _parse_order_entry(text: str) -> Order:
    name = text.removeprefix(_BUNDLE_PREFIX)
    if not name:
        raise ConfigurationError("an entry of the merge's order is empty")
    return Order(name, is_bundle=text.startswith(_BUNDLE_PREFIX))
