"""An lxml tree that is filled with the values of one document after another."""

from __future__ import annotations

from collections.abc import Sequence

from lxml import etree

from broker.matching.shape.tree import Node, NodeKind


class FillableTree:
    """A parsed tree with replaceable slot values.

    Documents of one shape differ only in these, and filling takes a small part of a parse. The tree
    holds one document at a time.
    """

    __slots__ = ("_attributes", "_values", "_texts", "root")

    def __init__(self, node: Node, root: etree._Element) -> None:
        """`node` is the shape's node of `root`. The object takes `root` over."""
        self.root = root
        self._values: Sequence[bytes] = ()
        self._texts: list[tuple[int, etree._Element]] = []
        self._attributes: list[tuple[int, etree._Element, str]] = []
        self._find_slots(node, root)

    def fill(self, values: Sequence[bytes]) -> etree._Element:
        """Return the root with these values, valid until the next call with others."""
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
                # A text slot is the only content of its element.
                self._texts.append((child.value, element))


def _name(attribute: Node) -> str:
    if attribute.namespace is None:
        return attribute.local
    return f"{{{attribute.namespace}}}{attribute.local}"
