"""The DTD exchange's view of a node's network."""

from __future__ import annotations

from broker.cluster.address import Address
from broker.cluster.dtd_exchange import DtdContext
from broker.cluster.network import Network


def build_dtd_context(network: Network) -> DtdContext:
    def own() -> Address | None:
        return None if network.state is None else network.state.address

    def towards(target: Address) -> Address | None:
        hop = None if network.state is None else network.state.next_hop(target, 0)
        neighbour = None if hop is None else network.neighbours.get(hop)
        return None if neighbour is None else neighbour.node.address

    return DtdContext(
        own_address=own,
        next_hop=towards,
        neighbours=lambda: [each.node.address for each in network.neighbours if each.up],
        held_dtds=network.types.held_dtds,
        pending_dtd=network.types.fetcher.fetch_now,
    )
