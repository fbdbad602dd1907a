"""The thirteen axes on schema nodes: possible and certain targets of a step.

The order of siblings is unknown, so axes to siblings find all possible ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from broker.matching.query.tree import Axis, KindTest, NodeTest
from broker.matching.schema.schema_node import Namespaces, NodeKind, SchemaNode

_PRINCIPAL = {Axis.ATTRIBUTE: NodeKind.ATTRIBUTE, Axis.NAMESPACE: NodeKind.NAMESPACE}
_INSIDE = frozenset({Axis.ATTRIBUTE, Axis.CHILD})
_BELOW = frozenset({Axis.DESCENDANT, Axis.DESCENDANT_OR_SELF})
_ITSELF = frozenset({Axis.SELF, Axis.DESCENDANT_OR_SELF, Axis.ANCESTOR_OR_SELF})


class ResolvedTest:
    """A node test on one axis, with its prefix resolved. `uri` is "" for a name without prefix."""

    def __init__(self, test: NodeTest, axis: Axis, uri: str | None) -> None:
        self._kind = test.kind if isinstance(test, KindTest) else None
        self.local = None if isinstance(test, KindTest) else test.local
        self._uri = uri
        self._principal = _PRINCIPAL.get(axis, NodeKind.ELEMENT)

    def accepts(self, node: SchemaNode) -> bool:
        if self._kind is not None:
            if self._kind == "node":
                return True
            return node.kind is (NodeKind.TEXT if self._kind == "text" else NodeKind.COMMENT)
        if node.kind is not self._principal:
            return False
        if node.kind is NodeKind.NAMESPACE:
            return True
        return self.local in (None, node.local) and self._has_namespace(node.namespaces)

    def _has_namespace(self, uris: Namespaces) -> bool:
        return self._uri is None or uris is None or self._uri in uris

    def accepts_all(self, node: SchemaNode) -> bool:
        if self._kind == "node":
            return True
        if node.kind is NodeKind.COMMENT or not self.accepts(node):
            return False
        return (
            self._kind is not None or self._uri is None or node.namespaces == frozenset({self._uri})
        )


def follow_axis(
    axis: Axis, starts: Collection[SchemaNode], spend: Callable[[int], None]
) -> set[SchemaNode]:
    """Return all schema nodes on the axis from any start. `spend` receives their number."""
    match axis:
        case Axis.SELF:
            found = set(starts)
        case Axis.CHILD:
            found = _children_of(starts)
        case Axis.ATTRIBUTE:
            found = {inner for node in starts for inner in node.attributes}
        case Axis.PARENT:
            found = _parents_of(starts)
        case Axis.DESCENDANT:
            found = _closure(starts, lambda node: node.children, spend)
        case Axis.DESCENDANT_OR_SELF:
            found = _closure(starts, lambda node: node.children, spend) | set(starts)
        case Axis.ANCESTOR:
            found = _closure(starts, lambda node: node.parents, spend)
        case Axis.ANCESTOR_OR_SELF:
            found = _closure(starts, lambda node: node.parents, spend) | set(starts)
        case Axis.FOLLOWING_SIBLING | Axis.PRECEDING_SIBLING:
            inside = [p for p in starts if p.kind not in (NodeKind.ATTRIBUTE, NodeKind.NAMESPACE)]
            found = _children_of(_parents_of(inside))
        case Axis.FOLLOWING | Axis.PRECEDING:
            roots = {node.root for node in starts if node.kind is not NodeKind.ROOT}
            found = _closure(roots, lambda node: node.children, spend)
        case Axis.NAMESPACE:
            found = _namespaces([node for node in starts if node.kind is NodeKind.ELEMENT])
    spend(len(found) + len(starts))
    return found


def follow_certainly(axis: Axis, starts: Iterable[SchemaNode]) -> set[SchemaNode]:
    """Return the schema nodes on the axis that certainly have a node, if each start has one."""
    found: set[SchemaNode] = set(starts) if axis in _ITSELF else set()
    if axis in _INSIDE:
        wanted = _PRINCIPAL.get(axis, NodeKind.ELEMENT)
        return {p for start in starts for p in start.required if p.kind is wanted}
    if axis in _BELOW:
        waiting = list(starts)
        seen = set(waiting)
        while waiting:
            inner = [p for p in waiting.pop().required if p.kind is NodeKind.ELEMENT]
            found.update(inner)
            waiting += [node for node in inner if node not in seen]
            seen.update(inner)
    elif axis is Axis.PARENT:
        outer = {start.parents[0] for start in starts if len(start.parents) == 1}
        found = {node for node in outer if node.kind is not NodeKind.ANY_CONTENT}
    return found


def _children_of(nodes: Iterable[SchemaNode]) -> set[SchemaNode]:
    found = {inner for node in nodes for inner in node.children}
    for pool in [node for node in found if node.kind is NodeKind.ANY_CONTENT]:
        found.remove(pool)
        found.update(pool.children)
    return found


def _parents_of(nodes: Iterable[SchemaNode]) -> set[SchemaNode]:
    found = {outer for node in nodes for outer in node.parents}
    for pool in [node for node in found if node.kind is NodeKind.ANY_CONTENT]:
        found.remove(pool)
        found.update(pool.parents)
    return found


def _namespaces(elements: list[SchemaNode]) -> set[SchemaNode]:
    if not elements:
        return set()
    declared = SchemaNode(NodeKind.NAMESPACE, "namespace::*", elements[0].root)
    declared.parents.extend(elements)
    return {declared}


def select_elements(nodes: Iterable[SchemaNode]) -> frozenset[SchemaNode]:
    return frozenset(node for node in nodes if node.kind is NodeKind.ELEMENT)


def _closure(
    starts: Iterable[SchemaNode],
    onwards: Callable[[SchemaNode], list[SchemaNode]],
    spend: Callable[[int], None],
) -> set[SchemaNode]:
    found: set[SchemaNode] = set()
    waiting = list(starts)
    while waiting:
        for node in onwards(waiting.pop()):
            if node not in found:
                found.add(node)
                waiting.append(node)
        spend(0)
    return {node for node in found if node.kind is not NodeKind.ANY_CONTENT}
