"""Linear patterns over label paths.

A *label path* is the sequence of labels from a document's root to one of its nodes: elements, and
possibly an attribute or text as the last label. A pattern describes a set of label paths.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

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
