"""Ways of the events of this node to a subscriber, for tracing (`broker.tracing.tracing.RouteTable`)."""

from __future__ import annotations

from collections.abc import Iterable

from broker.cluster.network import Network


class EventRoutes:
    """Those of a node of a network."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def wanted_here(self, matches: tuple[int, ...]) -> bool:
        """Whether a subscription of this node is among the matches."""
        return self._network.remote_interest.has_local_match(matches)

    def onward(self, matches: tuple[int, ...], rank: int) -> Iterable[tuple[str, bool]]:
        """The nodes and units that want it, and whether a way there is cleared for the rank."""
        network = self._network
        for each in sorted(network.remote_interest.destinations(matches)):
            yield str(each), network.is_cleared(each, rank)
