"""Ways to other nodes that may have a DTD."""

from __future__ import annotations

from broker.cluster.address import Address
from broker.cluster.dtd_exchange import Context
from broker.cluster.network import Network


def context_of(network: Network) -> Context:
    """What questions for DTDs need of a node's network."""

    def own() -> Address | None:
        return None if network.knowledge is None else network.knowledge.address

    def towards(target: Address) -> Address | None:
        hop = None if network.knowledge is None else network.knowledge.next_hop(target, 0)
        neighbour = None if hop is None else network.neighbours.get(hop)
        return None if neighbour is None else neighbour.node.address

    return Context(
        own=own,
        towards=towards,
        neighbours=lambda: [each.node.address for each in network.neighbours if each.up],
        get=network.types.held,
        coming=network.types.fetcher.coming,
    )
