"""The tree of one parsed document, in which every value is a constant."""

from __future__ import annotations

from lxml import etree

from broker.content.query.namespaces import XML_NAMESPACE
from broker.content.shape.tree import Node, NodeKind


def constant_tree(root: etree._Element) -> Node | None:
    """The root node of the document whose outermost element is `root`.

    None for a document with remarks, also around that element, which such trees do not have, or
    with attributes in a namespace, whose prefixes lxml does not tell.
    """
    if root.getprevious() is not None or root.getnext() is not None:
        return None
    building = _Building()
    tree = building.node(NodeKind.ROOT, None)
    return tree if building.add(tree, root) else None


class _Building:
    def __init__(self) -> None:
        self._order = 0

    def node(
        self,
        kind: NodeKind,
        parent: Node | None,
        tag: str = "",
        prefix: str | None = None,
        value: bytes = b"",
    ) -> Node:
        namespace, _, local = tag[1:].rpartition("}") if tag[:1] == "{" else ("", "", tag)
        made = Node(
            kind,
            parent,
            self._order,
            namespace=namespace or None,
            local=local,
            prefix=prefix,
            value=value,
        )
        self._order += 1
        return made

    def add(self, parent: Node, element: etree._Element) -> bool:
        """Add an element and all in it; False if that can not be told exactly."""
        if not isinstance(element.tag, str):
            return False
        node = self.node(NodeKind.ELEMENT, parent, element.tag, element.prefix)
        parent.children.append(node)
        for name, value in element.attrib.items():
            prefixes = _prefixes(str(name), element)
            if len(prefixes) > 1:
                return False
            prefix = prefixes[0] if prefixes else None
            text = str(value).encode()
            attribute = self.node(NodeKind.ATTRIBUTE, node, str(name), prefix, text)
            node.attributes.append(attribute)
        self._add_text(node, element.text)
        for child in element:
            if not self.add(node, child):
                return False
            self._add_text(node, child.tail)
        node.last = parent.last = self._order - 1
        return True

    def _add_text(self, parent: Node, text: str | None) -> None:
        if text:
            parent.children.append(self.node(NodeKind.TEXT, parent, value=text.encode()))


def _prefixes(name: str, element: etree._Element) -> list[str]:
    """The prefixes that an attribute of this name may have been written with."""
    if name[0] != "{":
        return []
    namespace = name[1:].rpartition("}")[0]
    if namespace == XML_NAMESPACE:
        return ["xml"]
    return [prefix for prefix, uri in element.nsmap.items() if uri == namespace and prefix]
