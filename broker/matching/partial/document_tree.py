"""Tree of one parsed document, with constants as values."""

from __future__ import annotations

from typing import cast

from lxml import etree

from broker.event.envelope import XML_NAMESPACE
from broker.matching.partial.axis import DocumentRoot
from broker.matching.shape.tree import Node, NodeKind

_OMITTED_TAGS = (etree.Comment, etree.ProcessingInstruction)


def build_document_tree(root: etree._Element) -> DocumentRoot | None:
    """Build the tree of the document whose root element is `root`.

    Comments and processing instructions are left out, but their presence is recorded. None for
    unresolved entities, and for an attribute whose prefix lxml does not record.
    """
    building = _TreeBuilder()
    # Siblings of the root element are comments or processing instructions.
    building.tree.has_omitted_nodes = root.getprevious() is not None or root.getnext() is not None
    return building.tree if building.add_element(building.tree, root) else None


#: Shared by all nodes without children or attributes; a finished tree never changes.
_NO_NODES: list[Node] = []


class _Leaf(Node):
    """An attribute, a text or an empty element: most of a tree.

    Own empty lists for each would cost more than all else, in the garbage collector.
    """

    __slots__ = ()

    def __init__(
        self,
        kind: NodeKind,
        parent: Node,
        order: int,
        value: bytes,
        namespace: str | None = None,
        local: str = "",
        prefix: str | None = None,
    ) -> None:
        self.kind = kind
        self.parent = parent
        self.order = self.last = order
        self.namespace = namespace
        self.local = local
        self.prefix = prefix
        self.value = value
        self.children = self.attributes = _NO_NODES


class _TreeBuilder:
    def __init__(self) -> None:
        self.tree = DocumentRoot()
        self._order = 0
        self._names: dict[str, tuple[str | None, str]] = {}

    def add_element(self, parent: Node, element: etree._Element) -> bool:
        """Add an element with its content; return False if it has no exact representation."""
        tag = element.tag
        if not isinstance(tag, str):
            self.tree.has_omitted_nodes = True
            return tag in _OMITTED_TAGS
        namespace, local = self._split_name(tag)
        prefix = element.prefix if namespace else None
        self._order += 1
        node = _Leaf(NodeKind.ELEMENT, parent, self._order, b"", namespace, local, prefix)
        parent.children.append(node)
        if not self._add_attributes(node, element):
            return False
        text = element.text
        if text or len(element):
            node.children = []
            self._add_text(node, text)
            for child in element:
                if not self.add_element(node, child):
                    return False
                self._add_text(node, child.tail)
        node.last = parent.last = self._order
        return True

    def _add_attributes(self, node: Node, element: etree._Element) -> bool:
        found = cast("list[tuple[str, str]]", element.items())
        if not found:
            return True
        order = self._order
        attributes = node.attributes = []
        for name, value in found:
            order += 1
            made = _Leaf(NodeKind.ATTRIBUTE, node, order, value.encode(), None, name)
            if name[0] == "{":
                made.namespace, made.local = self._split_name(name)
                prefixes = _possible_prefixes(made.namespace, element)
                if len(prefixes) > 1:
                    return False
                made.prefix = prefixes[0] if prefixes else None
            attributes.append(made)
        self._order = order
        return True

    def _add_text(self, parent: Node, text: str | None) -> None:
        if text:
            self._order += 1
            parent.children.append(_Leaf(NodeKind.TEXT, parent, self._order, text.encode()))

    def _split_name(self, name: str) -> tuple[str | None, str]:
        """Split into namespace (None if empty) and local name."""
        known = self._names.get(name)
        if known is None:
            namespace, _, local = name[1:].rpartition("}") if name[:1] == "{" else ("", "", name)
            known = self._names[name] = (namespace or None, local)
        return known


def _possible_prefixes(namespace: str | None, element: etree._Element) -> list[str]:
    if namespace == XML_NAMESPACE:
        return ["xml"]
    return [prefix for prefix, uri in element.nsmap.items() if uri == namespace and prefix]
