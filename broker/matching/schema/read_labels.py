"""Labels of a type that a query reads: names in it, ends of its paths, and text."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from broker.matching.query.tree import Axis
from broker.matching.schema.axis import follow_axis
from broker.matching.schema.schema_node import NodeKind, SchemaNode


class ReadLabels:
    """Collects labels. A wildcard inside a path reads nothing by itself."""

    def __init__(self, *, reading: bool = True) -> None:
        """Without `reading`, nothing is recorded."""
        self._reading = reading
        self.labels: set[str] = set()

    def add_nodes(self, nodes: Iterable[SchemaNode]) -> None:
        for node in nodes if self._reading else ():
            self.labels.update(node.edge_labels)

    def add_text(self, nodes: Iterable[SchemaNode], spend: Callable[[int], None]) -> None:
        """Record that the string-values of nodes matter: everything inside them."""
        if not self._reading:
            return
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
