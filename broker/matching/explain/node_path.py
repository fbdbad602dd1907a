"""Paths of nodes for display: `/flight/flightleg[2]/altitude`, `//Param/@value`.

Names have the query's prefixes. A position is shown if siblings have the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from broker.matching.query.namespaces import PREDEFINED_PREFIXES
from broker.matching.query.query import Query
from broker.matching.shape.tree import Node, NodeKind

#: Characters of a path.
MAX_PATH: Final = 240

_Node = TypeVar("_Node")


class PathFormatter:
    def __init__(self, query: Query) -> None:
        bound: Mapping[str, str] = {
            uri: prefix
            for prefix, uri in (*query.namespaces, *PREDEFINED_PREFIXES.items())
            if prefix != query.default_prefix
        }
        self._prefixes = bound

    def format_shape_node(self, node: Node) -> str:
        parts = []
        while node.parent is not None:
            parts.append(self._step(node))
            node = node.parent
        return _join_path(parts)

    def format_leaf(self, node: Node) -> str:
        """Return the path of a value, or of the element if it contains this text only."""
        parent = node.parent
        alone = node.kind is NodeKind.TEXT and parent is not None and len(parent.children) == 1
        return self.format_shape_node(parent if alone and parent is not None else node)

    def format_node(self, node: Node) -> str:
        """Return the path of a node, for a text without its position."""
        if node.kind is NodeKind.TEXT and node.parent is not None:
            return f"{self.format_shape_node(node.parent)}/text()"[:MAX_PATH]
        return self.format_shape_node(node)

    def _step(self, node: Node) -> str:
        parent = node.parent
        assert parent is not None
        if node.kind is NodeKind.ATTRIBUTE:
            return "@" + self._name(node.namespace, node.local)
        if node.kind is NodeKind.TEXT:
            texts = [each for each in parent.children if each.kind is NodeKind.TEXT]
            return "text()" + _position_suffix(node, texts, lambda _: True)
        name = self._name(node.namespace, node.local)
        return name + _position_suffix(node, parent.children, _same_name(node))

    def _name(self, namespace: str | None, local: str) -> str:
        prefix = None if namespace is None else self._prefixes.get(namespace)
        return local if prefix is None else f"{prefix}:{local}"


def _same_name(node: Node) -> Callable[[Node], bool]:
    return lambda other: (
        other.kind is node.kind and other.local == node.local and other.namespace == node.namespace
    )


def _position_suffix(node: _Node, siblings: Sequence[_Node], alike: Callable[[_Node], bool]) -> str:
    same = [each for each in siblings if alike(each)]
    return f"[{same.index(node) + 1}]" if len(same) > 1 else ""


def _join_path(parts: list[str]) -> str:
    return ("/" + "/".join(reversed(parts)))[:MAX_PATH]
