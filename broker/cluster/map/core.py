"""The map: what a node knows of the network's shape, nodes near and units far (Mspaces G5, G6).

Each context of the node has a graph. In its own cluster the vertices are nodes; in every unit
above, the vertices are that unit's children. What a node knows so grows with the sizes of its
contexts, not with the network. All nodes of a cluster that have the same tables agree on every
way, so that hop by hop an event gets nearer to where it is to go. While tables differ it may turn
back for a moment; how far it may wander is bounded where it is sent.
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
from broker.cluster.map.entries import NODE, UNIT_LINKS, UnitLink
from broker.cluster.map.route_table import RouteTable
from broker.cluster.map.unit_graph import UnitGraph
from broker.errors import ProtocolError

#: What everybody may see takes any edge.
_LOWEST = CLEARANCES[0]


@attrs.frozen
class MapSnapshot:
    """How large the map is."""

    nodes: int
    """Of the own cluster, reachable."""
    units: int
    """Siblings in all contexts above, reachable."""
    entries: int
    """Descriptions and ends of links that are kept."""
    refused: int
    """Entries and tables that could not be taken, since the start."""


class NetworkMap:
    """Built from the changes of tables, the node's own among them."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._cluster = ClusterGraph(address.unit)
        #: By depth of the context: 0 is the whole network.
        self._contexts = [UnitGraph(address.unit[:depth]) for depth in range(len(address.unit))]
        self._routes = RouteTable(address, self._cluster, self._contexts)
        self._refused = 0

    # ------------------------------------------------------------------- what tables tell

    def apply_change(
        self,
        key: tuple[str, str, str],
        scope: UnitPath,
        changes: Mapping[str, Any | None],
        is_removed: bool = False,
    ) -> bool:
        """A table (kind, subject, author) has changed. True if ways may be other than before.

        An entry that is not what it has to be counts as removed, and in `figures`.
        """
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
        self._routes.invalidate()
        return True

    def _graph_for(
        self, kind: str, subject: str, author: str, scope: UnitPath
    ) -> ClusterGraph | UnitGraph | None:
        """What a table is about; None if it is not about the map, or not what it has to be."""
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

    # ------------------------------------------------------------------- ways

    def next_hop(self, target: Address, rank: int = _LOWEST) -> str | None:
        """The neighbour to which what is for `target` goes. None: unreachable, or it is here.

        `rank` is that of the event's security level: no link that is cleared for less is on the
        way, as far as this node can see it.
        """
        if target.unit != self.address.unit:
            return self.next_hop_to_unit(target.unit, rank)
        return self._routes.hop_to_node(target.node, rank)

    def next_hop_to_unit(self, unit: UnitPath, rank: int = _LOWEST) -> str | None:
        """The neighbour to which what is for `unit` goes. None: unreachable, or this node is in it.

        Of the units that this node is not in, it knows the children of its contexts: the way to
        what lies deeper is the way to that child.
        """
        sibling = self._sibling(unit)
        return sibling and self._routes.hop_to_unit(*sibling, rank)

    def distance(self, target: Address, rank: int = _LOWEST) -> int | None:
        """The cost of the way inside the cluster, or between units in the context of both.

        None if unreachable. Costs of different contexts can not be compared.
        """
        if target == self.address:
            return 0
        if target.unit == self.address.unit:
            near = self._routes.routes_at(len(target.unit), rank).get(target.node)
            return near and near.distance
        sibling = self._sibling(target.unit)
        far = sibling and self._routes.routes_at(sibling[0], rank).get(sibling[1])
        return far.distance if far else None

    def reachable(self, rank: int = _LOWEST) -> frozenset[str]:
        """The nodes of the own cluster that can be reached inside it, this one among them."""
        return frozenset((self.address.node, *self._routes.routes_at(len(self.address.unit), rank)))

    def reachable_units(self, context: UnitPath, rank: int = _LOWEST) -> frozenset[str]:
        """The children of a context above the own cluster that can be reached, the own included."""
        depth = len(context)
        return frozenset((self.address.unit[depth], *self._routes.routes_at(depth, rank)))

    def _sibling(self, unit: UnitPath) -> tuple[int, str] | None:
        """The depth of the context in which this node and `unit` part, and the child there."""
        depth = len(common_prefix(self.address.unit, unit))
        if depth == len(self.address.unit) or depth == len(unit):
            return None
        return depth, unit[depth]

    # ------------------------------------------------------------------- who is there

    def members(self) -> Mapping[str, NodeDescriptor]:
        """All nodes of the own cluster that are known, reachable or not, this one among them."""
        return self._cluster.members()

    def link_counts(self) -> Mapping[str, int]:
        """How many links inside the cluster each of its nodes tells of."""
        return self._cluster.link_counts()

    def node_of_origin(self, origin: str) -> Address | None:
        """The node of the own cluster whose log is `origin`. None if no known one has it."""
        return self._cluster.node_of_origin(origin)

    def gateways(self, unit: UnitPath) -> Sequence[UnitLink]:
        """The links that lead from this side to `unit`, a child of one of this node's contexts."""
        sibling = self._sibling(unit)
        if sibling is None:
            return ()
        depth, child = sibling
        return self._contexts[depth].links_between(self.address.unit[depth], child)

    def gateways_by_unit(self) -> Mapping[UnitPath, Sequence[Address]]:
        """The gateways of each unit that lies in one of this node's contexts, and not on the way
        from there to its cluster."""
        found: dict[UnitPath, set[Address]] = {}
        for far, own in zip(self._contexts, self.address.unit, strict=True):
            for link in far.all_links():
                if link.unit != own:
                    found.setdefault((*far.context, link.unit), set()).add(link.own)
        return {unit: sorted(gateways) for unit, gateways in found.items()}

    def other_cluster_nodes(self) -> Sequence[Alternative]:
        """Nodes of other clusters that can be asked for links: those in the nearest units first."""
        found = {
            link.far: Alternative(link.far, link.endpoint)
            for far in reversed(self._contexts)
            for link in sorted(far.all_links())
            if link.endpoint and link.far.unit != self.address.unit
        }
        return tuple(found.values())

    def leader(self, level: int = 0) -> str | None:
        """Who speaks for the unit `level` steps above the own cluster; 0: for the cluster itself.

        In a cluster it is the smallest name that can be reached and is not about to leave; in a
        unit above, the leader of its smallest child that can be reached. None if that child is not
        the one that this node is in: then the leader's name is known in there alone.
        """
        depth = len(self.address.unit)
        for context in list(enclosing_units(self.address.unit))[1 : level + 1]:
            depth -= 1
            if min(self.reachable_units(context)) != self.address.unit[depth]:
                return None
        here = self.reachable()
        members = self.members()
        staying = (name for name in here if not (name in members and members[name].draining))
        return min(staying, default=min(here))

    def is_leader(self, level: int = 0) -> bool:
        """Whether this node speaks for the unit `level` steps above its cluster."""
        return self.leader(level) == self.address.node

    def led_units(self) -> frozenset[UnitPath]:
        """The units that this node speaks for: its cluster and those above, as far as it does."""
        units = enumerate(enclosing_units(self.address.unit))
        return frozenset(unit for level, unit in units if self.is_leader(level))

    def snapshot(self) -> MapSnapshot:
        """How large the map is."""
        return MapSnapshot(
            nodes=len(self.reachable()),
            units=sum(len(self.reachable_units(far.context)) - 1 for far in self._contexts),
            entries=self._cluster.entry_count() + sum(far.entry_count() for far in self._contexts),
            refused=self._refused,
        )
