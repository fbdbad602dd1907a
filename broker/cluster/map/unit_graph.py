"""One context above the own cluster: its units and the links between their gateways (G2, G5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from broker.cluster.address import UnitPath
from broker.cluster.map.entries import UnitLink, linked_node, unit_link
from broker.cluster.map.shortest_paths import Edge, Graph
from broker.errors import ProtocolError

#: More gateways one context does not have, and more links no table tells of: they are refused.
MOST_GATEWAYS = 1024


class Far:
    """The children of `context`, and which of them are linked.

    Several links may join two units: the edge between them costs what the cheapest costs for an
    event's security level.
    """

    def __init__(self, context: UnitPath) -> None:
        self.context = context
        self._told: dict[str, dict[str, UnitLink]] = {}
        self._agreed: dict[str, dict[str, list[UnitLink]]] | None = None
        self._graphs: dict[int, Graph] = {}

    def forget(self, gateway: str) -> None:
        """The gateway's table is gone."""
        if self._told.pop(gateway, None):
            self._changed()

    def change(self, gateway: str, entry: str, value: Any) -> None:
        """One entry of the gateway's table is new, other, or removed (None).

        `ProtocolError` if it can not be taken; then it counts as removed.
        """
        self._changed()
        far = linked_node(entry)
        told = self._told.get(gateway, {})
        told.pop(far, None)
        if value is not None:
            # One that is taken already stays; of a new one there is a table more.
            if max(len(told), len(self._told.keys() - {gateway})) >= MOST_GATEWAYS:
                raise ProtocolError(f"more than {MOST_GATEWAYS} gateways, or links of one")
            link = unit_link(value, self.context, gateway, far)
            self._told.setdefault(gateway, told)[far] = link
        elif not told:
            self._told.pop(gateway, None)

    def links(self, unit: str, far_unit: str) -> Sequence[UnitLink]:
        """The links from `unit` to `far_unit`, as `unit`'s ends tell of them, that both ends know.

        Each costs what the dearer end says and is cleared for what both ends are.
        """
        return self._links().get(unit, {}).get(far_unit, ())

    def ends(self) -> Iterator[UnitLink]:
        """All links, as each of their ends tells of them."""
        for others in self._links().values():
            for links in others.values():
                yield from links

    def neighbours(self, unit: str) -> Sequence[str]:
        """The units to which `unit` has links."""
        return tuple(self._links().get(unit, ()))

    def graph(self, rank: int) -> Graph:
        """The edges for events of security level `rank`."""
        if rank not in self._graphs:
            self._graphs[rank] = {
                unit: {
                    far: Edge(min(costs), rank)
                    for far, links in others.items()
                    if (costs := [link.cost for link in links if link.clearance >= rank])
                }
                for unit, others in self._links().items()
            }
        return self._graphs[rank]

    def entries(self) -> int:
        """How much is kept: ends of links."""
        return sum(map(len, self._told.values()))

    def _changed(self) -> None:
        self._agreed = None
        self._graphs.clear()

    def _links(self) -> dict[str, dict[str, list[UnitLink]]]:
        if self._agreed is None:
            self._agreed = {}
            for gateway, told in self._told.items():
                for link in told.values():
                    back = self._told.get(link.far.node, {}).get(gateway)
                    if back and (back.own, back.far) == (link.far, link.own):
                        agreed = link._replace(
                            cost=max(link.cost, back.cost),
                            clearance=min(link.clearance, back.clearance),
                        )
                        others = self._agreed.setdefault(link.unit, {})
                        others.setdefault(link.far_unit, []).append(agreed)
        return self._agreed
