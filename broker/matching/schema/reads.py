"""Which labels of a type a query reads: what it names, what its paths end at, and their text."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from broker.matching.query.tree import Axis
from broker.matching.schema.axes import along
from broker.matching.schema.places import NodeKind, Place


class Reads:
    """Collects labels. A wildcard in the middle of a path reads nothing by itself."""

    def __init__(self) -> None:
        self.labels: set[str] = set()

    def nodes(self, places: Iterable[Place]) -> None:
        """Whether there are nodes at these places matters."""
        for place in places:
            self.labels.update(place.edges)

    def text(self, places: Iterable[Place], spend: Callable[[int], None]) -> None:
        """The string-values of nodes at these places matter: all that lies within them."""
        holders = [p for p in places if p.kind in (NodeKind.ELEMENT, NodeKind.ROOT)]
        self.nodes(along(Axis.DESCENDANT, holders, spend))

    def languages(self, places: Iterable[Place]) -> None:
        """The `xml:lang` of these places matters."""
        self.nodes(
            attribute
            for place in places
            for attribute in place.attributes
            if attribute.qualified == "xml:lang"
        )


class NoReads(Reads):
    """For who does not ask: notes nothing."""

    def nodes(self, places: Iterable[Place]) -> None:
        """See `Reads`."""

    def text(self, places: Iterable[Place], spend: Callable[[int], None]) -> None:
        """See `Reads`."""

    def languages(self, places: Iterable[Place]) -> None:
        """See `Reads`."""
