"""A tree of lxml that is filled in with the values of one document of a shape after the other."""

from __future__ import annotations

from collections.abc import Sequence

from lxml import etree

from broker.matching.shape.tree import Node, NodeKind


class FillableTree:
    """The parser's tree of a document, whose slots can be given other values.

    Documents of one shape differ in nothing else, so then it is the tree of another: to fill it in
    takes a small part of a parse. It holds one document at a time.
    """

    __slots__ = ("_attributes", "_values", "_texts", "root")

    def __init__(self, node: Node, root: etree._Element) -> None:
        """`node` is the shape's of the element `root`, which is taken over."""
        self.root = root
        self._values: Sequence[bytes] = ()
        self._texts: list[tuple[int, etree._Element]] = []
        self._attributes: list[tuple[int, etree._Element, str]] = []
        self._find_slots(node, root)

    def fill(self, values: Sequence[bytes]) -> etree._Element:
        """The root of the document with these values, until it is filled with others."""
        if self._values is not values:
            for slot, element in self._texts:
                element.text = values[slot].decode()
            for slot, element, name in self._attributes:
                element.set(name, values[slot].decode())
            self._values = values
        return self.root

    def _find_slots(self, node: Node, element: etree._Element) -> None:
        for attribute in node.attributes:
            if isinstance(attribute.value, int):
                self._attributes.append((attribute.value, element, _name(attribute)))
        children = iter(element)
        for child in node.children:
            if child.kind is NodeKind.ELEMENT:
                self._find_slots(child, next(children))
            elif isinstance(child.value, int):
                # A text that is a slot is all that its element holds.
                self._texts.append((child.value, element))


def _name(attribute: Node) -> str:
    if attribute.namespace is None:
        return attribute.local
    return f"{{{attribute.namespace}}}{attribute.local}"
