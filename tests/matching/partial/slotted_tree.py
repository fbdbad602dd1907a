"""Trees with slots as values, for tests of the partial evaluator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lxml import etree

from broker.matching.partial.source import Computed, Constant, Slot, Source
from broker.matching.shape.tree import Node, NodeKind


class SlottedTree:
    """A document's tree with slots as values, or constants where `constant` returns True."""

    def __init__(self, root: etree._Element, constant: Any = lambda value: False) -> None:
        self.values: list[bytes] = []
        self._constant = constant
        self._order = 0
        self.root = Node(NodeKind.ROOT, None, 0)
        self._add(self.root, root)

    def _add(self, parent: Node, element: Any) -> None:
        name = etree.QName(element)
        node = self._node(
            NodeKind.ELEMENT,
            parent,
            namespace=name.namespace,
            local=name.localname,
            prefix=element.prefix,
        )
        parent.children.append(node)
        for key, value in element.attrib.items():
            attribute = etree.QName(key)
            # lxml does not record it; no test uses it where a namespace has several prefixes.
            prefixes = [p for p, uri in element.nsmap.items() if p and uri == attribute.namespace]
            node.attributes.append(
                self._node(
                    NodeKind.ATTRIBUTE,
                    node,
                    namespace=attribute.namespace,
                    local=attribute.localname,
                    prefix=prefixes[0] if prefixes else None,
                    value=self._value(value),
                )
            )
        self._add_text(node, element.text)
        for child in element:
            self._add(node, child)
            self._add_text(node, child.tail)

    def _add_text(self, node: Node, text: str | None) -> None:
        if text:
            node.children.append(self._node(NodeKind.TEXT, node, value=self._value(text)))

    def _node(self, kind: NodeKind, parent: Node, **more: Any) -> Node:
        self._order += 1
        return Node(kind, parent, self._order, **more)

    def _value(self, text: str) -> bytes | int:
        if self._constant(text):
            return text.encode()
        self.values.append(text.encode())
        return len(self.values) - 1


def value_in(source: Source, values: Sequence[bytes]) -> Any:
    """The source's value in a document with these slot values."""
    match source:
        case Slot(number=number):
            return values[number]
        case Constant(value=value):
            return value
        case Computed(function=function, arguments=arguments):
            return function(*(value_in(argument, values) for argument in arguments))
