"""Graph of the own cluster: its nodes and their links."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from broker.cluster.address import Address, UnitPath
from broker.cluster.descriptor import NodeDescriptor
from broker.cluster.map.entries import (
    MAX_COST,
    PROOF,
    SELF,
    NodeLink,
    parse_link_key,
    parse_node_link,
)
from broker.cluster.map.name_bindings import NameBindings
from broker.cluster.map.shortest_paths import Edge, Graph
from broker.errors import ProtocolError

#: More nodes, or links of a node, are rejected.
MAX_NODES = 1024
#: Of an edge with a draining end (Q17): higher than any detour.
DRAINING_COST = MAX_COST * MAX_NODES


@attrs.define
class _NodeTable:
    node: NodeDescriptor | None = None
    plain: Any = None
    """The descriptor as published."""
    proof: Any = None
    key: bytes | None = None
    links: dict[str, NodeLink] = attrs.field(factory=dict)


class ClusterGraph:
    def __init__(self, unit: UnitPath, bindings: NameBindings) -> None:
        self._unit = unit
        self._bindings = bindings
        self._tables: dict[str, _NodeTable] = {}
        self._stale: set[str] = set()
        self._graph: Graph = {}
        self._origins: dict[str, Address] | None = None

    def remove_author(self, node: str) -> None:
        table = self._tables.pop(node, None)
        if table:
            self._invalidate(node, *table.links)

    def set_entry(self, node: str, entry: str, value: Any) -> None:
        """None removes an entry. Raises `ProtocolError` for an invalid value, and removes the
        entry."""
        table = self._tables.get(node)
        if table is None:
            if len(self._tables) >= MAX_NODES:
                raise ProtocolError(f"more than {MAX_NODES} nodes in a cluster")
            table = self._tables[node] = _NodeTable()
        if entry == SELF:
            self._invalidate(node, *table.links)
            table.node, table.plain = None, None
            if value is not None:
                table.node, table.plain = self._parse_descriptor(node, value), value
        elif entry == PROOF:
            table.proof = value
        else:
            far = parse_link_key(entry)
            self._invalidate(node, far)
            table.links.pop(far, None)
            if value is not None:
                if len(table.links) >= MAX_NODES:
                    raise ProtocolError(f"more than {MAX_NODES} links of a node")
                table.links[far] = parse_node_link(value)

    def check_name(self, node: str) -> None:
        """Call this when the descriptor of a node, its proof, or the key of its name has changed.

        Raises `ProtocolError` for a wrong proof, or for another key than that of the name. Then the
        node has no descriptor.
        """
        table = self._tables.get(node)
        if table is None or table.plain is None:
            return
        table.node, table.key = None, None
        self._invalidate(node, *table.links)
        table.key = self._bindings.find_key(node, table.plain, table.proof)
        table.node = self._parse_descriptor(node, table.plain)

    def graph(self) -> Graph:
        """Return the edges that both ends report; never changed in place."""
        if self._stale:
            rows = {**self._graph, **{name: self._edges(name) for name in self._stale}}
            self._graph = {name: row for name, row in rows.items() if row}
            self._stale.clear()
        return self._graph

    def members(self) -> Mapping[str, NodeDescriptor]:
        """Described nodes, reachable or not."""
        return {name: table.node for name, table in self._tables.items() if table.node}

    def keys(self) -> Mapping[str, bytes]:
        """Public keys of described nodes whose names may vote."""
        return {
            name: table.key
            for name, table in self._tables.items()
            if table.key is not None and self._bindings.may_vote(name)
        }

    def key_of(self, name: str) -> bytes | None:
        """Return the public key of a described node; None for one of an earlier version."""
        table = self._tables.get(name)
        return None if table is None else table.key

    def node_of_origin(self, origin: str) -> Address | None:
        """Return the node with this log; of several, the smallest name."""
        if self._origins is None:
            members = sorted(self.members().items(), reverse=True)
            self._origins = {node.origin: node.address for _name, node in members}
        return self._origins.get(origin)

    def link_counts(self) -> Mapping[str, int]:
        return {name: len(table.links) for name, table in self._tables.items()}

    def entry_count(self) -> int:
        return sum(len(table.links) + bool(table.node) for table in self._tables.values())

    def _parse_descriptor(self, name: str, value: Any) -> NodeDescriptor:
        node = NodeDescriptor.from_plain(value)
        if node.address != Address(self._unit, name):
            raise ProtocolError(f"the descriptor of {name} has the address {node.address}")
        return node

    def _invalidate(self, *names: str) -> None:
        self._stale.update(names)
        self._origins = None

    def _edges(self, name: str) -> dict[str, Edge]:
        edges = {}
        table = self._tables.get(name) or _NodeTable()
        for far, link in table.links.items():
            other = self._tables.get(far)
            back = other.links.get(name) if other else None
            if other and back and table.node and other.node:
                draining = table.node.draining or other.node.draining
                edges[far] = Edge(
                    max(link.cost, back.cost) + (DRAINING_COST if draining else 0),
                    min(
                        *(link.clearance, back.clearance),
                        *(table.node.clearance, other.node.clearance),
                    ),
                )
        return edges
