"""Schema nodes: classes of document nodes with equal label path.

An element inside another one of the same name has the outer one's schema node, so the graph is
finite. If there are too many, all elements of one name share one. All possible parents are listed.
So a path without schema nodes exists in no valid document.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from broker.dtd.declaration import DeclaredAttribute, DeclaredElement
from broker.event.envelope import XML_NAMESPACE

#: Label paths of one document. Beyond it elements of one name share a schema node.
MAX_NODES: Final = 1000
#: Pairs of parent and child. A DTD with more is not analysed.
MAX_EDGES: Final = 20_000
#: Payloads of one type. A type with more is not analysed.
MAX_PAYLOADS: Final = 16
#: Schema nodes visited for one query on one DTD, a few hundred nanoseconds each.
MAX_WORK: Final = 5_000
#: Known values of an attribute. With more it may have any value.
MAX_VALUES: Final = 256


#: Possible URIs, "" for no namespace; None for any.
Namespaces: TypeAlias = frozenset[str] | None

NO_NAMESPACE: Final = frozenset({""})


def namespaces_of(elements: Iterable[DeclaredElement]) -> Mapping[str, Namespaces]:
    """Return namespaces by prefix. "" is the default namespace; a missing prefix is unknown."""
    found: dict[str, set[str]] = {"": {""}, "xml": {XML_NAMESPACE}}
    unknown = set()
    for element in elements:
        for attribute in element.attributes:
            prefix = attribute.declares_prefix
            if prefix is None:
                continue
            if attribute.fixed and attribute.default is not None and "&" not in attribute.default:
                found.setdefault(prefix, set()).add(attribute.default)
            else:
                unknown.add(prefix)
    return {p: None if p in unknown else frozenset(uris) for p, uris in found.items()}


class NodeKind(enum.Enum):
    """Kinds of nodes. Comments and processing instructions are one kind."""

    ROOT = "root"
    ELEMENT = "element"
    ATTRIBUTE = "attribute"
    TEXT = "text"
    COMMENT = "remark"
    NAMESPACE = "namespace"
    ANY_CONTENT = "pool"
    """No node: an intermediate between elements with content `ANY` and all elements."""


class SchemaNode:
    """One schema node, compared by identity.

    `label` is the path: `/flight/leg/@status`, `/flight/id/text()`, or `//leg` if elements of one
    name share a node. `edge_labels` are those of the edges to it: several if it is recursive or
    shared. `values` are all possible string-values, None if unknown.
    """

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
        self.attributes: list[SchemaNode] = []
        self.required: list[SchemaNode] = []

    def link(self, inner: SchemaNode, edge: str) -> None:
        inner.parents.append(self)
        if edge:
            inner.edge_labels.append(edge)
        (self.attributes if inner.kind is NodeKind.ATTRIBUTE else self.children).append(inner)


def values_of(attribute: DeclaredAttribute) -> frozenset[str] | None:
    """Return all values of an attribute in valid documents; None if they are not listed."""
    if attribute.values:
        return frozenset(attribute.values) if len(attribute.values) <= MAX_VALUES else None
    if attribute.fixed and attribute.default is not None and "&" not in attribute.default:
        return frozenset({attribute.default})
    return None
