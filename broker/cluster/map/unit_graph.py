"""Graph of one context above the cluster: its units and the links of their gateways (G2, G5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from broker.cluster.address import UnitPath
from broker.cluster.map.entries import UnitLink, parse_link_key, parse_unit_link
from broker.cluster.map.shortest_paths import Edge, Graph
from broker.errors import ProtocolError

#: More gateways, or links of one, are rejected.
MAX_GATEWAYS = 1024


class UnitGraph:
    """Children of a context above the cluster, and the links of their gateways (G2, G5).

    An edge costs as much as the cheapest link that is cleared for the event.
    """

    def __init__(self, context: UnitPath) -> None:
        self.context = context
        self._links_by_gateway: dict[str, dict[str, UnitLink]] = {}
        self._agreed: dict[str, dict[str, list[UnitLink]]] | None = None
        self._graphs: dict[int, Graph] = {}

    def remove_author(self, gateway: str) -> None:
        if self._links_by_gateway.pop(gateway, None):
            self._invalidate()

    def set_entry(self, gateway: str, entry: str, value: Any) -> None:
        """None removes an entry. Raises `ProtocolError` for an invalid value, and removes the
        entry."""
        self._invalidate()
        far = parse_link_key(entry)
        links = self._links_by_gateway.get(gateway, {})
        links.pop(far, None)
        if value is not None:
            # A known link may change. A new one needs room.
            if max(len(links), len(self._links_by_gateway.keys() - {gateway})) >= MAX_GATEWAYS:
                raise ProtocolError(f"more than {MAX_GATEWAYS} gateways, or links of a gateway")
            link = parse_unit_link(value, self.context, gateway, far)
            self._links_by_gateway.setdefault(gateway, links)[far] = link
        elif not links:
            self._links_by_gateway.pop(gateway, None)

    def links_between(self, unit: str, far_unit: str) -> Sequence[UnitLink]:
        """Return the links that both ends report, with the higher cost and the lower clearance."""
        return self._agreed_links().get(unit, {}).get(far_unit, ())

    def all_links(self) -> Iterator[UnitLink]:
        for others in self._agreed_links().values():
            for links in others.values():
                yield from links

    def linked_units(self, unit: str) -> Sequence[str]:
        return tuple(self._agreed_links().get(unit, ()))

    def graph(self, rank: int) -> Graph:
        if rank not in self._graphs:
            self._graphs[rank] = {
                unit: {
                    far: Edge(min(costs), rank)
                    for far, links in others.items()
                    if (costs := [link.cost for link in links if link.clearance >= rank])
                }
                for unit, others in self._agreed_links().items()
            }
        return self._graphs[rank]

    def entry_count(self) -> int:
        return sum(map(len, self._links_by_gateway.values()))

    def _invalidate(self) -> None:
        self._agreed = None
        self._graphs.clear()

    def _agreed_links(self) -> dict[str, dict[str, list[UnitLink]]]:
        if self._agreed is None:
            self._agreed = {}
            for gateway, links in self._links_by_gateway.items():
                for link in links.values():
                    back = self._links_by_gateway.get(link.far.node, {}).get(gateway)
                    if back and (back.own, back.far) == (link.far, link.own):
                        agreed = link._replace(
                            cost=max(link.cost, back.cost),
                            clearance=min(link.clearance, back.clearance),
                        )
                        others = self._agreed.setdefault(link.unit, {})
                        others.setdefault(link.far_unit, []).append(agreed)
        return self._agreed
