"""XPath axes and node tests on the tree of a shape."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import chain
from operator import attrgetter

from broker.matching.partial.work_budget import Undecidable
from broker.matching.query.tree import (
    DESCENDANT_AXES,
    SIBLING_AXES,
    Axis,
    KindTest,
    NameTest,
    NodeTest,
    Step,
)
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


def _descendant(node: Node) -> Iterator[Node]:
    # Not recursive: each node would pass through a generator per level.
    left = node.children[::-1]
    while left:
        found = left.pop()
        yield found
        if found.children:
            left += found.children[::-1]


def _descendant_or_self(node: Node) -> Iterator[Node]:
    return chain((node,), _descendant(node))


def _ancestor(node: Node) -> Iterator[Node]:
    parent = node.parent
    while parent is not None:
        yield parent
        parent = parent.parent


def _ancestor_or_self(node: Node) -> Iterator[Node]:
    return chain((node,), _ancestor(node))


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
    for here in _element_and_ancestors(node):
        for sibling in _following_sibling(here):
            yield from _descendant_or_self(sibling)


def _preceding(node: Node) -> Iterator[Node]:
    for here in _element_and_ancestors(node):
        for sibling in _preceding_sibling(here):
            yield from reversed(list(_descendant_or_self(sibling)))


def _element_and_ancestors(node: Node) -> Iterator[Node]:
    # For an attribute libxml2 starts at its element, and leaves out that element's children.
    return _ancestor(node) if node.kind is NodeKind.ATTRIBUTE else _ancestor_or_self(node)


_WALKS: dict[Axis, Callable[[Node], Iterator[Node]]] = {
    Axis.ANCESTOR: _ancestor,
    Axis.ANCESTOR_OR_SELF: _ancestor_or_self,
    Axis.ATTRIBUTE: lambda node: iter(node.attributes),
    Axis.CHILD: lambda node: iter(node.children),
    Axis.DESCENDANT: _descendant,
    Axis.DESCENDANT_OR_SELF: _descendant_or_self,
    Axis.FOLLOWING: _following,
    Axis.FOLLOWING_SIBLING: _following_sibling,
    Axis.PARENT: lambda node: iter(() if node.parent is None else (node.parent,)),
    Axis.PRECEDING: _preceding,
    Axis.PRECEDING_SIBLING: _preceding_sibling,
    Axis.SELF: lambda node: iter((node,)),
}


_AXES_TO_OMITTED_NODES = (
    DESCENDANT_AXES | SIBLING_AXES | {Axis.CHILD, Axis.FOLLOWING, Axis.PRECEDING}
)
#: Axes that are empty for an omitted node, so the step behind drops it.
_AXES_FROM_PARENTS = frozenset({Axis.ATTRIBUTE, Axis.CHILD, Axis.DESCENDANT})


class DocumentRoot(Node):
    """Root node of a document; `has_omitted_nodes` if comments or instructions were omitted."""

    __slots__ = ("has_omitted_nodes",)

    def __init__(self) -> None:
        super().__init__(NodeKind.ROOT, None, 0)
        self.has_omitted_nodes = False


def omits_nodes(node: Node) -> bool:
    root = root_of(node)
    return isinstance(root, DocumentRoot) and root.has_omitted_nodes


def may_select_omitted_nodes(step: Step, following: Step | None) -> bool:
    """Return True if a query could observe omitted nodes by this step.

    The first step of `//a`, short for `descendant-or-self::node()/child::a`, selects omitted nodes;
    the `following` one drops them.
    """
    test = step.test
    if (
        not isinstance(test, KindTest)
        or test.kind == "text"
        or step.axis not in _AXES_TO_OMITTED_NODES
    ):
        return False
    return bool(step.predicates) or following is None or following.axis not in _AXES_FROM_PARENTS
