"""Map of the network: nearby nodes and other units (Mspaces G5, G6).

Each context of the node has a graph: of the nodes in its own cluster, of the children in each unit
above. So the map grows with the sizes of the contexts, not with the network.

Nodes of a cluster with equal tables choose equal routes. While tables differ, an event may turn
back, up to the hop limit of frames.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from broker.cluster.address import (
    Address,
    UnitPath,
    common_prefix,
    enclosing_units,
    is_within,
    unit_text,
)
from broker.cluster.descriptor import CLEARANCES, NodeDescriptor
from broker.cluster.handshake_messages import Alternative
from broker.cluster.map.cluster_graph import ClusterGraph
from broker.cluster.map.entries import NODE, PROOF, SELF, UNIT_LINKS, UnitLink
from broker.cluster.map.name_bindings import NameBindings
from broker.cluster.map.route_table import RouteTable
from broker.cluster.map.unit_graph import UnitGraph
from broker.errors import ProtocolError

_LOWEST = CLEARANCES[0]


@attrs.frozen
class MapSnapshot:
    nodes: int
    """Reachable, of the own cluster."""
    units: int
    """Reachable siblings in all contexts above."""
    entries: int
    """Descriptors and link ends."""
    refused: int


class NetworkMap:
    def __init__(self, address: Address, bindings: NameBindings | None = None) -> None:
        self.address = address
        self._cluster = ClusterGraph(address.unit, bindings or NameBindings())
        self._contexts = [UnitGraph(address.unit[:depth]) for depth in range(len(address.unit))]
        self._routes = RouteTable(address, self._cluster, self._contexts)
        self._refused = 0

    def apply_change(
        self,
        key: tuple[str, str, str],
        scope: UnitPath,
        changes: Mapping[str, Any | None],
        is_removed: bool = False,
    ) -> bool:
        """Return True if routes may change. A malformed entry counts as removed."""
        kind, subject, author = key
        graph = self._graph_for(kind, subject, author, scope)
        if graph is None:
            return False
        if is_removed:
            graph.remove_author(author)
        else:
            for entry, value in changes.items():
                try:
                    graph.set_entry(author, entry, value)
                except ProtocolError:
                    self._refused += 1
            if kind == NODE and not changes.keys().isdisjoint((SELF, PROOF)):
                self.check_name(author)
        self._routes.invalidate()
        return True

    def check_name(self, node: str) -> None:
        """Remove the descriptor of a node of the cluster if its name belongs to another key."""
        try:
            self._cluster.check_name(node)
        except ProtocolError:
            self._refused += 1
        self._routes.invalidate()

    def _graph_for(
        self, kind: str, subject: str, author: str, scope: UnitPath
    ) -> ClusterGraph | UnitGraph | None:
        if kind not in (NODE, UNIT_LINKS):
            return None
        own = self.address.unit
        if kind == NODE and scope == own and subject == author:
            return self._cluster
        if kind == UNIT_LINKS and subject == unit_text(scope):
            if is_within(own, scope) and len(scope) < len(own):
                return self._contexts[len(scope)]
        self._refused += 1
        return None

    def next_hop(self, target: Address, rank: int = _LOWEST, attempt: int = 0) -> str | None:
        """Return the neighbour towards `target`; None if it is unreachable or this node.

        All known links of the route are cleared for `rank`. After the first attempt the neighbours
        with another route take turns: a node on the shortest one may drop messages.
        """
        if target.unit != self.address.unit:
            return self.next_hop_to_unit(target.unit, rank, attempt)
        if attempt:
            return self._routes.detour_to_node(target.node, rank, attempt)
        return self._routes.hop_to_node(target.node, rank)

    def next_hop_to_unit(self, unit: UnitPath, rank: int = _LOWEST, attempt: int = 0) -> str | None:
        """Return the neighbour towards `unit`; None if it is unreachable or contains this node.

        A unit deeper than a child of this node's contexts has the route of that child.
        """
        sibling = self._sibling(unit)
        if sibling and attempt:
            return self._routes.detour_to_unit(*sibling, rank, attempt)
        return sibling and self._routes.hop_to_unit(*sibling, rank)

    def distance(self, target: Address, rank: int = _LOWEST) -> int | None:
        """Return the cost of the route; None if unreachable.

        It counts the own cluster, or the units in the common context. Costs of different contexts
        are not comparable.
        """
        if target == self.address:
            return 0
        if target.unit == self.address.unit:
            route = self._routes.routes_at(len(target.unit), rank).get(target.node)
            return route and route.distance
        sibling = self._sibling(target.unit)
        unit_route = sibling and self._routes.routes_at(sibling[0], rank).get(sibling[1])
        return unit_route.distance if unit_route else None

    def reachable(self, rank: int = _LOWEST) -> frozenset[str]:
        """With this node."""
        return frozenset((self.address.node, *self._routes.routes_at(len(self.address.unit), rank)))

    def reachable_units(self, context: UnitPath, rank: int = _LOWEST) -> frozenset[str]:
        """With the own child."""
        depth = len(context)
        return frozenset((self.address.unit[depth], *self._routes.routes_at(depth, rank)))

    def _sibling(self, unit: UnitPath) -> tuple[int, str] | None:
        """Return the depth of the context where this node and `unit` diverge, and the child
        there."""
        depth = len(common_prefix(self.address.unit, unit))
        if depth == len(self.address.unit) or depth == len(unit):
            return None
        return depth, unit[depth]

    def members(self) -> Mapping[str, NodeDescriptor]:
        """Nodes of the own cluster, reachable or not."""
        return self._cluster.members()

    def keys(self) -> Mapping[str, bytes]:
        """Public keys of the members whose names may vote."""
        return self._cluster.keys()

    def key_of(self, name: str) -> bytes | None:
        """Return the public key of a member; None for one of an earlier version."""
        return self._cluster.key_of(name)

    def link_counts(self) -> Mapping[str, int]:
        """Links inside the cluster, by node."""
        return self._cluster.link_counts()

    def node_of_origin(self, origin: str) -> Address | None:
        return self._cluster.node_of_origin(origin)

    def gateways(self, unit: UnitPath) -> Sequence[UnitLink]:
        sibling = self._sibling(unit)
        if sibling is None:
            return ()
        depth, child = sibling
        return self._contexts[depth].links_between(self.address.unit[depth], child)

    def gateways_by_unit(self) -> Mapping[UnitPath, Sequence[Address]]:
        found: dict[UnitPath, set[Address]] = {}
        for graph, own in zip(self._contexts, self.address.unit, strict=True):
            for link in graph.all_links():
                if link.unit != own:
                    found.setdefault((*graph.context, link.unit), set()).add(link.own)
        return {unit: sorted(gateways) for unit, gateways in found.items()}

    def other_cluster_nodes(self) -> Sequence[Alternative]:
        """Return nodes that accept link requests, those in the nearest units first."""
        found = {
            link.far: Alternative(link.far, link.endpoint)
            for graph in reversed(self._contexts)
            for link in sorted(graph.all_links())
            if link.endpoint and link.far.unit != self.address.unit
        }
        return tuple(found.values())

    def leader(self, level: int = 0) -> str | None:
        """Return the leader of the unit `level` steps above the cluster.

        It is the reachable node with the smallest name that is not draining, of the smallest
        reachable child. Only nodes of that child know it, others return None.
        """
        depth = len(self.address.unit)
        for context in list(enclosing_units(self.address.unit))[1 : level + 1]:
            depth -= 1
            if min(self.reachable_units(context)) != self.address.unit[depth]:
                return None
        reachable_nodes = self.reachable()
        members = self.members()
        staying = (
            name for name in reachable_nodes if not (name in members and members[name].draining)
        )
        return min(staying, default=min(reachable_nodes))

    def is_leader(self, level: int = 0) -> bool:
        return self.leader(level) == self.address.node

    def led_units(self) -> frozenset[UnitPath]:
        units = enumerate(enclosing_units(self.address.unit))
        return frozenset(unit for level, unit in units if self.is_leader(level))

    def snapshot(self) -> MapSnapshot:
        return MapSnapshot(
            nodes=len(self.reachable()),
            units=sum(len(self.reachable_units(graph.context)) - 1 for graph in self._contexts),
            entries=self._cluster.entry_count()
            + sum(graph.entry_count() for graph in self._contexts),
            refused=self._refused,
        )
