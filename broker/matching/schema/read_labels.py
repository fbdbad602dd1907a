"""Which labels of a type a query reads: what it names, what its paths end at, and their text."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from broker.matching.query.tree import Axis
from broker.matching.schema.axis import follow_axis
from broker.matching.schema.schema_node import NodeKind, SchemaNode


class ReadLabels:
    """Collects labels. A wildcard in the middle of a path reads nothing by itself."""

    def __init__(self) -> None:
        self.labels: set[str] = set()

    def add_nodes(self, nodes: Iterable[SchemaNode]) -> None:
        """Whether there are nodes at these nodes matters."""
        for node in nodes:
            self.labels.update(node.edge_labels)

    def add_text(self, nodes: Iterable[SchemaNode], spend: Callable[[int], None]) -> None:
        """The string-values of nodes at these nodes matter: all that lies within them."""
        holders = [p for p in nodes if p.kind in (NodeKind.ELEMENT, NodeKind.ROOT)]
        self.add_nodes(follow_axis(Axis.DESCENDANT, holders, spend))

    def add_languages(self, nodes: Iterable[SchemaNode]) -> None:
        """The `xml:lang` of these nodes matters."""
        self.add_nodes(
            attribute
            for node in nodes
            for attribute in node.attributes
            if attribute.qualified == "xml:lang"
        )


class NoReadLabels(ReadLabels):
    """For who does not ask: notes nothing."""

    def add_nodes(self, nodes: Iterable[SchemaNode]) -> None:
        """See `ReadLabels`."""

    def add_text(self, nodes: Iterable[SchemaNode], spend: Callable[[int], None]) -> None:
        """See `ReadLabels`."""

    def add_languages(self, nodes: Iterable[SchemaNode]) -> None:
        """See `ReadLabels`."""
