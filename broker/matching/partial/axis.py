"""XPath axes and node tests on the tree of a shape."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from operator import attrgetter

from broker.matching.partial.undecidable import Undecidable
from broker.matching.query.tree import Axis, KindTest, NameTest, NodeTest
from broker.matching.shape.tree import Node, NodeKind

_ORDER = attrgetter("order")


def walk_axis(axis: Axis, node: Node) -> Iterator[Node]:
    """Yield the nodes of an axis in its own order: backwards for a reverse axis."""
    walk = _WALKS.get(axis)
    if walk is None:
        raise Undecidable(f"the axis {axis.value} is not followed on a shape")
    return walk(node)


def passes_node_test(test: NodeTest, axis: Axis, node: Node, namespace: str | None) -> bool:
    """Return True if the node passes; `namespace` is that of the test's prefix."""
    if isinstance(test, KindTest):
        if test.kind == "node":
            return True
        return test.kind == "text" and node.kind is NodeKind.TEXT
    assert isinstance(test, NameTest)
    principal = NodeKind.ATTRIBUTE if axis is Axis.ATTRIBUTE else NodeKind.ELEMENT
    if node.kind is not principal:
        return False
    if test.local is None:
        return test.prefix is None or node.namespace == namespace
    return node.local == test.local and node.namespace == namespace


def root_of(node: Node) -> Node:
    while node.parent is not None:
        node = node.parent
    return node


def _child(node: Node) -> Iterator[Node]:
    return iter(node.children)


def _descendant(node: Node) -> Iterator[Node]:
    # Not recursive: each node would pass through a generator per level.
    left = node.children[::-1]
    while left:
        found = left.pop()
        yield found
        if found.children:
            left += found.children[::-1]


def _descendant_or_self(node: Node) -> Iterator[Node]:
    yield node
    yield from _descendant(node)


def _attribute(node: Node) -> Iterator[Node]:
    return iter(node.attributes)


def _self(node: Node) -> Iterator[Node]:
    yield node


def _parent(node: Node) -> Iterator[Node]:
    if node.parent is not None:
        yield node.parent


def _ancestor(node: Node) -> Iterator[Node]:
    parent = node.parent
    while parent is not None:
        yield parent
        parent = parent.parent


def _ancestor_or_self(node: Node) -> Iterator[Node]:
    yield node
    yield from _ancestor(node)


def _siblings(node: Node) -> tuple[list[Node], int]:
    if node.parent is None or node.kind is NodeKind.ATTRIBUTE:
        return [], 0
    siblings = node.parent.children
    return siblings, bisect_left(siblings, node.order, key=_ORDER)


# Lazy: the caller may need only the nearest sibling.
def _following_sibling(node: Node) -> Iterator[Node]:
    siblings, place = _siblings(node)
    for at in range(place + 1, len(siblings)):
        yield siblings[at]


def _preceding_sibling(node: Node) -> Iterator[Node]:
    siblings, place = _siblings(node)
    for at in range(place - 1, -1, -1):
        yield siblings[at]


def _following(node: Node) -> Iterator[Node]:
    if node.kind is NodeKind.ATTRIBUTE:
        # libxml2 starts behind the attribute's element, and leaves out that element's children.
        assert node.parent is not None
        node = node.parent
    while node.parent is not None:
        for sibling in _following_sibling(node):
            yield from _descendant_or_self(sibling)
        node = node.parent


def _preceding(node: Node) -> Iterator[Node]:
    if node.kind is NodeKind.ATTRIBUTE:
        assert node.parent is not None
        node = node.parent
    while node.parent is not None:
        for sibling in _preceding_sibling(node):
            yield from reversed(list(_descendant_or_self(sibling)))
        node = node.parent


_WALKS: dict[Axis, Callable[[Node], Iterator[Node]]] = {
    Axis.ANCESTOR: _ancestor,
    Axis.ANCESTOR_OR_SELF: _ancestor_or_self,
    Axis.ATTRIBUTE: _attribute,
    Axis.CHILD: _child,
    Axis.DESCENDANT: _descendant,
    Axis.DESCENDANT_OR_SELF: _descendant_or_self,
    Axis.FOLLOWING: _following,
    Axis.FOLLOWING_SIBLING: _following_sibling,
    Axis.PARENT: _parent,
    Axis.PRECEDING: _preceding,
    Axis.PRECEDING_SIBLING: _preceding_sibling,
    Axis.SELF: _self,
}
