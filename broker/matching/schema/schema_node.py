"""The nodes that a node of a valid document can have: its label path, as far as that is bounded.

An element within another one of its own name leads back to that one's node, so recursion makes a
circle and the number of nodes is finite. Where there would be too many, all elements of one name
share a node. Either way each node of a document has exactly one node, and each node knows all
nodes that its node's parent can have: what is not found among the nodes is in no valid document.
"""

from __future__ import annotations

import enum

from broker.dtd.declaration import DeclaredAttribute, DeclaredElement
from broker.matching.schema.limits import MAX_VALUES
from broker.matching.schema.namespace import Namespaces


class NodeKind(enum.Enum):
    """Kinds of nodes; comments and processing instructions are one kind."""

    ROOT = "root"
    ELEMENT = "element"
    ATTRIBUTE = "attribute"
    TEXT = "text"
    COMMENT = "remark"
    NAMESPACE = "namespace"
    ANY_CONTENT = "pool"
    """No node: stands between all elements whose content is `ANY` and all elements."""


class SchemaNode:
    """One node of a document. Compared by identity; made by `grow` and not changed afterwards.

    `root` is the one that its document begins with. `label` is its path: `/flight/leg`,
    `/flight/leg/@status`, `/flight/id/text()`, or `//leg` where elements of one name share a node.
    `edges` are the labels by which it is reached: more than one if it is recursive or shared.
    `values` are all that its string-value can be, None if unknown.
    """

    __slots__ = (
        "attributes",
        "children",
        "declaration",
        "edge_labels",
        "kind",
        "label",
        "local",
        "namespaces",
        "parents",
        "qualified",
        "required",
        "root",
        "values",
    )

    def __init__(
        self,
        kind: NodeKind,
        label: str,
        root: SchemaNode | None = None,
        *,
        qualified: str = "",
        namespaces: Namespaces = None,
        values: frozenset[str] | None = None,
        declaration: DeclaredElement | DeclaredAttribute | None = None,
    ) -> None:
        self.kind = kind
        self.label = label
        self.root: SchemaNode = self if root is None else root
        self.qualified = qualified
        self.local = qualified.rpartition(":")[2]
        self.namespaces = namespaces
        self.values = values
        self.declaration = declaration
        self.edge_labels: list[str] = []
        self.parents: list[SchemaNode] = []
        self.children: list[SchemaNode] = []
        """What the child axis finds."""
        self.attributes: list[SchemaNode] = []
        self.required: list[SchemaNode] = []
        """Children and attributes that it always has, those with a default too."""

    def link(self, inner: SchemaNode, edge: str) -> None:
        """Put a node into this one, reached by the label `edge`, if it has one."""
        inner.parents.append(self)
        if edge:
            inner.edge_labels.append(edge)
        (self.attributes if inner.kind is NodeKind.ATTRIBUTE else self.children).append(inner)

    def __repr__(self) -> str:
        return f"<{self.kind.value} {self.label}>"


def values_of(attribute: DeclaredAttribute) -> frozenset[str] | None:
    """All values of an attribute in valid documents; None where they are not listed."""
    if attribute.values:
        return frozenset(attribute.values) if len(attribute.values) <= MAX_VALUES else None
    if attribute.fixed and attribute.default is not None and "&" not in attribute.default:
        return frozenset({attribute.default})
    return None
