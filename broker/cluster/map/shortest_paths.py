"""Shortest paths from one vertex of a small graph, deterministic for equal graphs."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

Vertex: TypeAlias = str


class Edge(NamedTuple):
    """An edge in both directions."""

    cost: int
    """At least 1: edges without cost would allow loops."""
    clearance: int
    """Rank of the highest security level that may pass."""


Graph: TypeAlias = Mapping[Vertex, Mapping[Vertex, Edge]]


class Route(NamedTuple):
    distance: int
    first: Vertex
    """Among equal routes the smallest name."""


def find_routes(
    graph: Graph, exits: Iterable[tuple[Vertex, int]], source: Vertex, rank: int
) -> Routes:
    """Return the routes from `source` to all other vertices that an event of `rank` can reach.

    `exits` are the source's neighbours with their costs. Among equal routes the smallest first
    neighbour wins at every vertex. So hop-by-hop decisions agree, and routes from one source never
    meet again after they part.
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
