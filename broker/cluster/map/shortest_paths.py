"""Shortest paths from one vertex of a small graph, the same at all who have the same graph."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

Vertex: TypeAlias = str


class Edge(NamedTuple):
    """What joins two neighbouring vertices, in both directions."""

    cost: int
    """At least 1: what costs nothing could be gone around in circles."""
    clearance: int
    """The rank of the highest security level that may pass."""


#: For each vertex its neighbours. Each edge stands at both of its ends.
Graph: TypeAlias = Mapping[Vertex, Mapping[Vertex, Edge]]


class Route(NamedTuple):
    """How to get from the source to one vertex."""

    distance: int
    first: Vertex
    """The neighbour of the source on the way; of several shortest ways the smallest name."""


def find_routes(
    graph: Graph, exits: Iterable[tuple[Vertex, int]], source: Vertex, rank: int
) -> Routes:
    """The ways from `source` to everything that an event of `rank` can reach.

    `exits` are the source's own neighbours with their costs; of the other vertices' edges those
    count that are cleared for `rank`. The way that each vertex finds goes on where this one leads:
    among all shortest ways the smallest first neighbour counts, so ways from one source never
    meet again once they have parted. The source has no route.
    """
    best = {neighbour: (cost, neighbour) for neighbour, cost in exits}
    heap = [(cost, neighbour, neighbour) for neighbour, (cost, _first) in best.items()]
    heapq.heapify(heap)
    found: Routes = {}
    while heap:
        distance, first, vertex = heapq.heappop(heap)
        if vertex in found:
            continue
        found[vertex] = Route(distance, first)
        for neighbour, edge in graph.get(vertex, {}).items():
            if edge.clearance >= rank and neighbour != source:
                way = (distance + edge.cost, first)
                if neighbour not in best or way < best[neighbour]:
                    best[neighbour] = way
                    heapq.heappush(heap, (*way, neighbour))
    return found


Routes: TypeAlias = dict[Vertex, Route]
