"""Destinations of this node's events, for tracing (`broker.tracing.node_trace.IEventRoutes`)."""

from __future__ import annotations

from collections.abc import Iterable

from broker.cluster.network import Network


class EventRoutes:
    """Implements `broker.tracing.node_trace.IEventRoutes`."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def has_local_match(self, matches: tuple[int, ...]) -> bool:
        return self._network.remote_interest.has_local_match(matches)

    def destinations(self, matches: tuple[int, ...], rank: int) -> Iterable[tuple[str, bool]]:
        """Yield the destinations; True if a route to them is cleared for the rank."""
        network = self._network
        for each in sorted(network.remote_interest.destinations(matches)):
            yield str(each), network.is_cleared(each, rank)
