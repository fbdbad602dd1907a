"""Ways of the events of this node to a subscriber, for tracing (`broker.tracing.tracing.Ways`)."""

from __future__ import annotations

from collections.abc import Iterable

from broker.cluster.network import Network


class NetworkWays:
    """Those of a node of a network."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def wanted_here(self, matches: tuple[int, ...]) -> bool:
        """Whether a subscription of this node is among the matches."""
        return self._network.wants.any_other(matches)

    def onward(self, matches: tuple[int, ...], rank: int) -> Iterable[tuple[str, bool]]:
        """The nodes and units that want it, and whether a way there is cleared for the rank."""
        network = self._network
        for each in sorted(network.wants.destinations(matches)):
            yield str(each), network.cleared(each, rank)
