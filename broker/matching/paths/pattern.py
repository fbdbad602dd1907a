"""Linear patterns over label paths, and requirements: patterns that must occur.

A *label path* has the labels from a document's root to one of its nodes: elements, and possibly an
attribute or text at the end.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TypeAlias

import attrs


class LabelKind(enum.Enum):
    """Kinds of labels; the value begins a label's key."""

    ELEMENT = "e"
    ATTRIBUTE = "@"
    TEXT = "t"


class DocumentRole(enum.Enum):
    PAYLOAD = "payload"
    """The payload's document; without a payload, the envelope's."""

    ENVELOPE = "envelope"


def label_key(kind: LabelKind, namespace: str | None, local: str | None) -> str:
    """Return the key of a name test; `namespace` "" is none, None is any, `local` None is any."""
    if namespace is None:
        return f"{kind.value}*"
    return f"{kind.value}{{{namespace}}}{'*' if local is None else local}"


def matching_keys(kind: LabelKind, namespace: str, local: str) -> tuple[str, str, str]:
    """Return the keys of the three name tests that a label passes: its own first, `*` last."""
    return (
        label_key(kind, namespace, local),
        label_key(kind, namespace, None),
        label_key(kind, None, None),
    )


@attrs.frozen(slots=True)
class PatternStep:
    """One step of a pattern. `descendant` allows any elements before it, as `//` does.

    `namespace` "" is none, None is any; `local` None is any. Text has no name.
    """

    descendant: bool
    kind: LabelKind
    namespace: str | None = None
    local: str | None = None
    key: str = attrs.field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "key", label_key(self.kind, self.namespace, self.local))

    def __str__(self) -> str:
        if self.kind is LabelKind.TEXT:
            name = "text()"
        else:
            prefix = f"{{{self.namespace}}}" if self.namespace else ""
            name = f"{prefix}{self.local or '*'}"
        at = "@" if self.kind is LabelKind.ATTRIBUTE else ""
        return f"{'//' if self.descendant else '/'}{at}{name}"


@attrs.frozen(slots=True, cache_hash=True)
class Pattern:
    """Steps from the root of a document; only the last one may be no element."""

    document: DocumentRole
    steps: tuple[PatternStep, ...]

    def __str__(self) -> str:
        text = "".join(map(str, self.steps))
        return text if self.document is DocumentRole.PAYLOAD else f"envelope:{text}"

    @property
    def weight(self) -> int:
        return sum((step.local is not None) + (not step.descendant) + 1 for step in self.steps)

    def matches(self, keys: Sequence[tuple[str, str, str]]) -> bool:
        steps = self.steps
        count = len(steps)
        here = 1  # Bit i: the first i steps match up to the current label.
        for label in keys:
            onward = 0
            for i in range(count):
                if here >> i & 1:
                    step = steps[i]
                    if step.descendant:
                        onward |= 1 << i
                    if step.key in label:
                        onward |= 2 << i
            here = onward
            if not here:
                return False
        return bool(here >> count & 1)

    def implies(self, other: Pattern) -> bool:
        """Return True if every document with this pattern has the other: it is a prefix."""
        return self.document is other.document and self.steps[: len(other.steps)] == other.steps


#: Limit of alternatives. Beyond it, a conjunction drops its longer side, and a disjunction requires
#: nothing.
MAX_ALTERNATIVES = 64
#: Patterns of one alternative; the likely rarest are kept.
MAX_CONJUNCTS = 4

Alternative: TypeAlias = frozenset[Pattern]


@attrs.frozen(slots=True)
class Requirements:
    """A document can match only if all patterns of one alternative occur in it.

    Without alternatives it can not match; an empty alternative requires nothing. `exact`: it
    matches if and only if they occur.
    """

    alternatives: frozenset[Alternative]
    exact: bool

    def inexact(self) -> Requirements:
        return attrs.evolve(self, exact=False)

    def __str__(self) -> str:
        lines = (" and ".join(sorted(map(str, each))) or "anything" for each in self.alternatives)
        return " or ".join(sorted(lines)) or "nothing"


NEVER = Requirements(frozenset(), exact=True)
ALWAYS = Requirements(frozenset({frozenset()}), exact=True)
UNKNOWN = ALWAYS.inexact()


def require_pattern(pattern: Pattern) -> Requirements:
    return Requirements(frozenset({frozenset({pattern})}), exact=True)


def require_both(left: Requirements, right: Requirements) -> Requirements:
    exact = left.exact and right.exact
    if len(left.alternatives) * len(right.alternatives) > MAX_ALTERNATIVES:
        shorter = min(left, right, key=lambda side: len(side.alternatives))
        return shorter.inexact()
    products = frozenset(a | b for a in left.alternatives for b in right.alternatives)
    return _simplify(products, exact)


def require_either(left: Requirements, right: Requirements) -> Requirements:
    return _simplify(left.alternatives | right.alternatives, left.exact and right.exact)


def _simplify(alternatives: frozenset[Alternative], exact: bool) -> Requirements:
    if len(alternatives) > MAX_ALTERNATIVES:
        return UNKNOWN
    conjuncts = {_remove_implied(each) for each in alternatives}
    if any(len(each) > MAX_CONJUNCTS for each in conjuncts):
        exact = False
        conjuncts = {_select_rarest(each) for each in conjuncts}
    weakest = frozenset(each for each in conjuncts if not any(other < each for other in conjuncts))
    return Requirements(weakest, exact)


def _remove_implied(patterns: Alternative) -> Alternative:
    return frozenset(
        p for p in patterns if not any(q is not p and q != p and q.implies(p) for q in patterns)
    )


def _select_rarest(patterns: Alternative) -> Alternative:
    ranked = sorted(patterns, key=lambda p: (-p.weight, str(p)))
    return frozenset(ranked[:MAX_CONJUNCTS])
