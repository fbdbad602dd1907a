"""Linear patterns: what of a query only looks at the names on the way from the root to a node.

A *label path* is the sequence of labels from a document's root to one of its nodes: elements, and
as a last label possibly an attribute or "text". A pattern describes a set of label paths.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

import attrs


class LabelKind(enum.Enum):
    """The kinds of nodes that a label path names; the value begins a label's key."""

    ELEMENT = "e"
    ATTRIBUTE = "@"
    TEXT = "t"


class DocumentRole(enum.Enum):
    """Which of an event's two documents a pattern is about."""

    PAYLOAD = "payload"
    """What queries address: the payload's document, the envelope's where there is no payload."""

    ENVELOPE = "envelope"


def label_key(kind: LabelKind, namespace: str | None, local: str | None) -> str:
    """A name test as one word; `namespace` "" is none, None any, and so is the `local` None."""
    if namespace is None:
        return f"{kind.value}*"
    return f"{kind.value}{{{namespace}}}{'*' if local is None else local}"


def matching_keys(kind: LabelKind, namespace: str, local: str) -> tuple[str, str, str]:
    """The keys of the three name tests that a label passes: its own first, `*` last."""
    return (
        label_key(kind, namespace, local),
        label_key(kind, namespace, None),
        label_key(kind, None, None),
    )


@attrs.frozen(slots=True)
class PatternStep:
    """One step. `descendant` allows any number of elements before it, as `//` does.

    `namespace` "" means no namespace, None any; `local` None any name. Text has no name.
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
    """Steps from the root of a document; only the last one is anything but an element."""

    document: DocumentRole
    steps: tuple[PatternStep, ...]

    def __str__(self) -> str:
        text = "".join(map(str, self.steps))
        return text if self.document is DocumentRole.PAYLOAD else f"envelope:{text}"

    @property
    def weight(self) -> int:
        """How rare its occurrence is likely to be: a guess, by names and length."""
        return sum((step.local is not None) + (not step.descendant) + 1 for step in self.steps)

    def matches(self, keys: Sequence[tuple[str, str, str]]) -> bool:
        """Whether it describes the label path whose labels have these `matching_keys`."""
        steps = self.steps
        count = len(steps)
        here = 1  # Bit i: the first i steps are matched up to the last label.
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
        """Whether a document in which this occurs has the other for certain: it is a prefix."""
        return self.document is other.document and self.steps[: len(other.steps)] == other.steps
