"""Shortest routes through the contexts of a node, cached until a change.

A route to another unit leaves by the nearest gateway. Nearness compares the largest context first,
last the own cluster, then names. So all nodes of the route decide alike, and each hop shortens it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from broker.cluster.address import Address
from broker.cluster.map.cluster_graph import ClusterGraph
from broker.cluster.map.entries import UnitLink
from broker.cluster.map.shortest_paths import Graph, Routes, find_routes
from broker.cluster.map.unit_graph import UnitGraph

_Exits = tuple[tuple[str, int], ...]
#: Neighbours, or far units, that take turns in further attempts. Each costs a search of the graph.
MOST_EXITS: Final = 4


class RouteTable:
    def __init__(
        self, address: Address, cluster: ClusterGraph, contexts: Sequence[UnitGraph]
    ) -> None:
        self._node = address.node
        self._unit = address.unit
        self._cluster = cluster
        self._contexts = contexts
        #: By (depth, rank), until the next change.
        self._routes: dict[tuple[int, int], Routes] = {}
        self._hops: dict[tuple[int, str, int], str | None] = {}
        #: By (depth, rank). Most changes affect neither graph nor exits.
        self._found: dict[tuple[int, int], tuple[Graph, _Exits, Routes]] = {}
        #: For further attempts, until the next change.
        self._exit_routes: dict[tuple[int, int], Sequence[tuple[str, Routes]]] = {}
        self._detours: dict[tuple[int, str, int], list[str]] = {}

    def invalidate(self) -> None:
        self._routes.clear()
        self._hops.clear()
        self._exit_routes.clear()
        self._detours.clear()

    def routes_at(self, depth: int, rank: int) -> Routes:
        """Return the routes in the context at `depth`, or between the nodes of the cluster."""
        cached = self._routes.get((depth, rank))
        if cached is not None:
            return cached
        if depth == len(self._unit):
            source, graph = self._node, self._cluster.graph()
            exits = self._own_edges(graph, rank)
        else:
            source, graph = self._unit[depth], self._contexts[depth].graph(rank)
            exits = self._own_unit_edges(depth, rank)
        before = self._found.get((depth, rank))
        if before and before[0] is graph and before[1] == exits:
            found = before[2]
        else:
            found = find_routes(graph, exits, source, rank)
            self._found[depth, rank] = (graph, exits, found)
        self._routes[depth, rank] = found
        return found

    def hop_to_node(self, node: str, rank: int) -> str | None:
        route = self.routes_at(len(self._unit), rank).get(node)
        return route and route.first

    def hop_to_unit(self, depth: int, child: str, rank: int) -> str | None:
        key = (depth, child, rank)
        # Cache reachable units only: unknown names must not fill the memory.
        if key in self._hops:
            return self._hops[key]
        route = self.routes_at(depth, rank).get(child)
        if route is None:
            return None
        hop = self._hops[key] = self._hop_out_to(depth, route.first, rank)
        return hop

    def detour_to_node(self, node: str, rank: int, attempt: int) -> str | None:
        """Return the neighbour for a further attempt: those with a route to the node take turns.

        None takes the place of a direct link, since no node on it can drop messages.
        """
        first = self.hop_to_node(node, rank)
        if first is None or first == node:
            return first
        depth = len(self._unit)
        hops = self._detours.get((depth, node, rank))
        if hops is None:
            found = [
                (routes[node].distance, neighbour)
                for neighbour, routes in self._routes_by_exit(depth, rank)
                if node in routes
            ]
            others = [neighbour for _, neighbour in sorted(found)]
            hops = self._detours[depth, node, rank] = _unique(first, others)
        return hops[attempt % len(hops)]

    def detour_to_unit(self, depth: int, child: str, rank: int, attempt: int) -> str | None:
        """Return the neighbour for a further attempt: the gateways to the unit take turns."""
        first = self.hop_to_unit(depth, child, rank)
        if first is None:
            return None
        hops = self._detours.get((depth, child, rank))
        if hops is None:
            others = [
                self._hop_over(depth, [link], rank)
                for far_unit, routes in self._routes_by_exit(depth, rank)
                if child in routes
                for link in sorted(self._links_out(depth, far_unit, rank))
            ]
            hops = self._detours[depth, child, rank] = _unique(first, others)
        return hops[attempt % len(hops)]

    def _routes_by_exit(self, depth: int, rank: int) -> Sequence[tuple[str, Routes]]:
        """Return the nearest exits of the context at `depth`, each with the routes over it."""
        found = self._exit_routes.get((depth, rank))
        if found is None:
            if depth == len(self._unit):
                source, graph = self._node, self._cluster.graph()
                exits = self._own_edges(graph, rank)
            else:
                source, graph = self._unit[depth], self._contexts[depth].graph(rank)
                exits = self._own_unit_edges(depth, rank)
            nearest = sorted(exits, key=lambda exit: (exit[1], exit[0]))[:MOST_EXITS]
            found = [(exit[0], find_routes(graph, [exit], source, rank)) for exit in nearest]
            self._exit_routes[depth, rank] = found
        return found

    def _links_out(self, depth: int, far_unit: str, rank: int) -> list[UnitLink]:
        return [
            link
            for link in self._contexts[depth].links_between(self._unit[depth], far_unit)
            if link.clearance >= rank and self._is_reachable_inside(depth + 1, link.own, rank)
        ]

    def _hop_out_to(self, depth: int, far_unit: str, rank: int) -> str | None:
        return self._hop_over(depth, self._links_out(depth, far_unit, rank), rank)

    def _hop_over(self, depth: int, links: Sequence[UnitLink], rank: int) -> str | None:
        """Return the neighbour towards the nearest of some links to another unit."""
        for inner in range(depth + 1, len(self._unit)):
            nearest = min(
                {link.own.unit[inner] for link in links},
                key=lambda child: (self._unit_distance(inner, child, rank), child),
            )
            if nearest != self._unit[inner]:
                return self.hop_to_unit(inner, nearest, rank)
            links = [link for link in links if link.own.unit[inner] == nearest]
        link = min(links, key=lambda link: self._gateway_order(link, rank))
        if link.own.node == self._node:
            return link.far.node
        return self.hop_to_node(link.own.node, rank)

    def _own_edges(self, graph: Graph, rank: int) -> _Exits:
        edges = graph.get(self._node, {})
        return tuple(
            (name, edge.cost) for name, edge in sorted(edges.items()) if edge.clearance >= rank
        )

    def _own_unit_edges(self, depth: int, rank: int) -> _Exits:
        exits = []
        for far_unit in sorted(self._contexts[depth].linked_units(self._unit[depth])):
            costs = [link.cost for link in self._links_out(depth, far_unit, rank)]
            if costs:
                exits.append((far_unit, min(costs)))
        return tuple(exits)

    def _is_reachable_inside(self, depth: int, node: Address, rank: int) -> bool:
        if depth == len(self._unit):
            return node.unit == self._unit and (
                node.node == self._node or node.node in self.routes_at(depth, rank)
            )
        if len(node.unit) <= depth:
            return False
        child = node.unit[depth]
        if child == self._unit[depth]:
            return self._is_reachable_inside(depth + 1, node, rank)
        return child in self.routes_at(depth, rank)

    def _unit_distance(self, depth: int, child: str, rank: int) -> int:
        if child == self._unit[depth]:
            return 0
        return self.routes_at(depth, rank)[child].distance

    def _gateway_order(self, link: UnitLink, rank: int) -> tuple[int, str, str]:
        if link.own.node == self._node:
            distance = 0
        else:
            distance = self.routes_at(len(self._unit), rank)[link.own.node].distance
        return (distance + link.cost, link.own.node, link.far.node)


def _unique(first: str, others: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys((first, *(hop for hop in others if hop is not None))))
