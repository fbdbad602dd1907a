"""The tree of a document with known constants and unknown slot values.

It is XPath's data model without comments, processing instructions and namespace nodes.
"""

from __future__ import annotations

import enum
from typing import TypeAlias

#: A constant (UTF-8, as the parser reports it), or the number of a slot.
Value: TypeAlias = bytes | int


class NodeKind(enum.Enum):
    ROOT = "root"
    ELEMENT = "element"
    ATTRIBUTE = "attribute"
    TEXT = "text"


class Node:
    """One node. `order` increases in document order: an element, its attributes, its children.

    `last` is the order of an element's last descendant or attribute.
    """

    __slots__ = (
        "attributes",
        "children",
        "kind",
        "last",
        "local",
        "namespace",
        "order",
        "parent",
        "prefix",
        "value",
    )

    def __init__(
        self,
        kind: NodeKind,
        parent: Node | None,
        order: int,
        *,
        namespace: str | None = None,
        local: str = "",
        prefix: str | None = None,
        value: Value = b"",
    ) -> None:
        self.kind = kind
        self.parent = parent
        self.order = self.last = order
        self.namespace = namespace
        self.local = local
        self.prefix = prefix
        self.value = value
        self.children: list[Node] = []
        self.attributes: list[Node] = []

    def __repr__(self) -> str:
        return f"<{self.kind.value} {self.local or self.value!r} {self.order}>"
