"""Graph of the schema nodes of one document: the payload or the envelope."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from broker.dtd.declaration import DeclaredElement
from broker.dtd.declared_names import ENVELOPE
from broker.matching.schema.schema_node import (
    MAX_EDGES,
    MAX_NODES,
    NO_NAMESPACE,
    Namespaces,
    NodeKind,
    SchemaNode,
    values_of,
)

_EMPTY_TEXT: Final = frozenset({""})


class TooManyNodes(Exception):
    """The document has more schema nodes, or more pairs of them, than allowed."""


class DocumentGraph:
    """The schema nodes of one document.

    `payload` is the element in the envelope besides the envelope's own. Labels inside it start with
    it. With `shared` all elements of one name share a schema node.
    """

    def __init__(
        self,
        elements: Mapping[str, DeclaredElement],
        namespaces: Mapping[str, Namespaces],
        start: str,
        *,
        payload: str | None,
        payloads: Collection[str],
        shared: bool,
    ) -> None:
        """Raises `TooManyNodes`; with `shared` only for an extremely dense DTD."""
        self._elements = elements
        self._namespaces = namespaces
        self._payload = payload
        self._payloads = payloads
        self._shared = shared
        self._edges = 0
        self.root = SchemaNode(NodeKind.ROOT, "")
        self.remark = SchemaNode(NodeKind.COMMENT, "comment()", self.root)
        self._pool = SchemaNode(NodeKind.ANY_CONTENT, "/", self.root)
        self.elements: list[SchemaNode] = []
        self.by_local: dict[str, list[SchemaNode]] = {}
        self.root.link(self.remark, "")
        self._build(start)
        (self.element,) = (p for p in self.root.children if p.kind is NodeKind.ELEMENT)
        self.root.required.append(self.element)

    def _build(self, start: str) -> None:
        by_name: dict[str, SchemaNode] = {}
        first = self._element(start, f"/{start}")
        self.root.link(first, f"/{start}")
        by_name[start] = first
        # Each with its ancestors by name, including itself.
        waiting = [(first, by_name)]
        while waiting:
            node, known = waiting.pop()
            if isinstance(node.declaration, DeclaredElement) and node.declaration.any:
                node = self._use_pool(node)
                if node.children:
                    continue
            children, required = self._children(node)
            for name in sorted(children):
                base = "" if node.qualified == ENVELOPE and name in self._payloads else node.label
                edge = f"{base}/{name}"
                inner = known.get(name)
                if inner is None:
                    inner = self._element(name, f"//{name}" if self._shared else edge)
                    if self._shared:
                        known[name] = inner
                        waiting.append((inner, known))
                    else:
                        waiting.append((inner, {**known, name: inner}))
                node.link(inner, edge)
                self._count_edge()
                if name in required:
                    node.required.append(inner)

    def _use_pool(self, node: SchemaNode) -> SchemaNode:
        if not self._shared:
            raise TooManyNodes
        node.children.append(self._pool)
        self._pool.parents.append(node)
        return self._pool

    def _children(self, node: SchemaNode) -> tuple[Collection[str], Collection[str]]:
        declared = node.declaration
        if declared is None:
            return self._elements.keys(), ()
        assert isinstance(declared, DeclaredElement)
        children = declared.content.children
        required = declared.content.required
        if declared.qualified_name == ENVELOPE and self._payloads:
            own = (name for name in children if name not in self._payloads)
            if self._payload is None:
                return self._declared(own), required
            return self._declared((*own, self._payload)), {*required, self._payload}
        return self._declared(children), required

    def _declared(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name in self._elements]

    def _element(self, name: str, label: str) -> SchemaNode:
        declared = self._elements[name]
        empty = declared.content.empty
        node = SchemaNode(
            NodeKind.ELEMENT,
            label,
            self.root,
            qualified=name,
            namespaces=self._namespaces.get(declared.prefix or ""),
            values=_EMPTY_TEXT if empty else None,
            declaration=declared,
        )
        self.elements.append(node)
        if len(self.elements) > MAX_NODES and not self._shared:
            raise TooManyNodes
        self.by_local.setdefault(node.local, []).append(node)
        self._add_attributes(node, declared)
        if not empty:
            text = SchemaNode(NodeKind.TEXT, f"{label}/text()", self.root)
            node.link(text, text.label)
            if not declared.has_text:
                # White space between elements. No version of the DTD adds or removes it.
                text.edge_labels.clear()
            node.link(self.remark, "")
        return node

    def _add_attributes(self, node: SchemaNode, declared: DeclaredElement) -> None:
        for attribute in declared.attributes:
            if attribute.declares_prefix is not None:
                continue
            self._count_edge()
            name = attribute.qualified_name
            inner = SchemaNode(
                NodeKind.ATTRIBUTE,
                f"{node.label}/@{name}",
                self.root,
                qualified=name,
                namespaces=(
                    self._namespaces.get(attribute.prefix) if attribute.prefix else NO_NAMESPACE
                ),
                values=values_of(attribute),
                declaration=attribute,
            )
            node.link(inner, inner.label)
            if attribute.required or attribute.default is not None:
                node.required.append(inner)

    def _count_edge(self) -> None:
        self._edges += 1
        if self._edges > MAX_EDGES:
            raise TooManyNodes
