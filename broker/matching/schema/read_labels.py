"""Labels of a type that a query reads: names in it, ends of its paths, and text."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from broker.matching.query.tree import Axis
from broker.matching.schema.axis import follow_axis
from broker.matching.schema.schema_node import NodeKind, SchemaNode


class ReadLabels:
    """Collects labels. A wildcard inside a path reads nothing by itself."""

    def __init__(self) -> None:
        self.labels: set[str] = set()

    def add_nodes(self, nodes: Iterable[SchemaNode]) -> None:
        """Record that the existence of nodes matters."""
        for node in nodes:
            self.labels.update(node.edge_labels)

    def add_text(self, nodes: Iterable[SchemaNode], spend: Callable[[int], None]) -> None:
        """Record that the string-values of nodes matter: everything inside them."""
        containers = [p for p in nodes if p.kind in (NodeKind.ELEMENT, NodeKind.ROOT)]
        self.add_nodes(follow_axis(Axis.DESCENDANT, containers, spend))

    def add_languages(self, nodes: Iterable[SchemaNode]) -> None:
        """Record that the `xml:lang` of nodes matters."""
        self.add_nodes(
            attribute
            for node in nodes
            for attribute in node.attributes
            if attribute.qualified == "xml:lang"
        )


class NoReadLabels(ReadLabels):
    """Records nothing."""

    def add_nodes(self, nodes: Iterable[SchemaNode]) -> None:
        """See `ReadLabels`."""

    def add_text(self, nodes: Iterable[SchemaNode], spend: Callable[[int], None]) -> None:
        """See `ReadLabels`."""

    def add_languages(self, nodes: Iterable[SchemaNode]) -> None:
        """See `ReadLabels`."""
