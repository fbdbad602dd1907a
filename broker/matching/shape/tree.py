"""The tree of a document of which only the constants are known.

XPath's data model without comments, processing instructions and namespace nodes: a shape has none
of the first two, and no query on a shape reaches the third. Values are constants, or numbers of
slots that each document of the shape fills.
"""

from __future__ import annotations

import enum
from typing import TypeAlias

#: A constant (UTF-8, as the parser would report it), or the number of a slot.
Value: TypeAlias = bytes | int


class NodeKind(enum.Enum):
    """XPath's kinds of nodes that occur in a shape."""

    ROOT = "root"
    ELEMENT = "element"
    ATTRIBUTE = "attribute"
    TEXT = "text"


class Node:
    """One node. `order` rises in document order: an element, its attributes, its children.

    `last` is the `order` of an element's last descendant or attribute, so that a node lies within
    another if its `order` is between the two. `namespace`, `local` and `prefix` are those of
    elements and attributes; `value` is that of attributes and texts.
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
