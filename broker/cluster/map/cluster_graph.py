"""The own cluster as its nodes' tables tell it: who is in it, and which of them are linked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from broker.cluster.address import Address, UnitPath
from broker.cluster.descriptor import NodeDescriptor
from broker.cluster.map.entries import MAX_COST, SELF, NodeLink, linked_node, node_link
from broker.cluster.map.shortest_paths import Edge, Graph
from broker.errors import ProtocolError

#: More nodes one cluster does not have, and more links no table tells of: they are refused.
MOST_NODES = 1024
#: Comes on top of an edge's cost where one end is about to leave (Q17): above any way around.
DRAINING_COST = MAX_COST * MOST_NODES


@attrs.define
class _Told:
    """What one node tells of itself."""

    node: NodeDescriptor | None = None
    links: dict[str, NodeLink] = attrs.field(factory=dict)


class Near:
    """The nodes of one cluster and the edges between them."""

    def __init__(self, unit: UnitPath) -> None:
        self._unit = unit
        self._told: dict[str, _Told] = {}
        #: Whose edges are to be found anew when somebody asks.
        self._stale: set[str] = set()
        self._graph: Graph = {}
        self._origins: dict[str, Address] | None = None

    def forget(self, node: str) -> None:
        """The node's table is gone."""
        told = self._told.pop(node, None)
        if told:
            self._changed(node, *told.links)

    def change(self, node: str, entry: str, value: Any) -> None:
        """One entry of the node's table is new, other, or removed (None).

        `ProtocolError` if it can not be taken; then it counts as removed.
        """
        told = self._told.get(node)
        if told is None:
            if len(self._told) >= MOST_NODES:
                raise ProtocolError(f"more than {MOST_NODES} nodes in a cluster")
            told = self._told[node] = _Told()
        if entry == SELF:
            self._changed(node, *told.links)
            told.node = None
            told.node = None if value is None else self._described(node, value)
        else:
            far = linked_node(entry)
            self._changed(node, far)
            told.links.pop(far, None)
            if value is not None:
                if len(told.links) >= MOST_NODES:
                    raise ProtocolError(f"more than {MOST_NODES} links of a node")
                told.links[far] = node_link(value)

    def graph(self) -> Graph:
        """The edges that both ends tell of, as far as both are described.

        Another object after a change: what was got before stays as it is.
        """
        if self._stale:
            rows = {**self._graph, **{name: self._edges(name) for name in self._stale}}
            self._graph = {name: row for name, row in rows.items() if row}
            self._stale.clear()
        return self._graph

    def members(self) -> Mapping[str, NodeDescriptor]:
        """All nodes that are described, reachable or not."""
        return {name: told.node for name, told in self._told.items() if told.node}

    def node_of_origin(self, origin: str) -> Address | None:
        """The node whose log is `origin`; of several, which is a mistake, the smallest name."""
        if self._origins is None:
            members = sorted(self.members().items(), reverse=True)
            self._origins = {node.origin: node.address for _name, node in members}
        return self._origins.get(origin)

    def degrees(self) -> Mapping[str, int]:
        """How many links each node tells of."""
        return {name: len(told.links) for name, told in self._told.items()}

    def entries(self) -> int:
        """How much is kept: descriptions and ends of links."""
        return sum(len(told.links) + bool(told.node) for told in self._told.values())

    def _described(self, name: str, value: Any) -> NodeDescriptor:
        node = NodeDescriptor.of_plain(value)
        if node.address != Address(self._unit, name):
            raise ProtocolError(f"{name} describes itself as {node.address}")
        return node

    def _changed(self, *names: str) -> None:
        self._stale.update(names)
        self._origins = None

    def _edges(self, name: str) -> dict[str, Edge]:
        edges = {}
        told = self._told.get(name) or _Told()
        for far, link in told.links.items():
            other = self._told.get(far)
            back = other.links.get(name) if other else None
            if other and back and told.node and other.node:
                draining = told.node.draining or other.node.draining
                edges[far] = Edge(
                    max(link.cost, back.cost) + (DRAINING_COST if draining else 0),
                    min(
                        *(link.clearance, back.clearance),
                        *(told.node.clearance, other.node.clearance),
                    ),
                )
        return edges
