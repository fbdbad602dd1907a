"""Policy of a node for tickets of a mesh, by its settings and the network's map."""

from __future__ import annotations

from broker.cluster.descriptor import CLEARANCES
from broker.cluster.network import Network
from broker.config.network import NetworkSettings
from broker.streams.ticket import TicketPolicy


def build_ticket_policy(settings: NetworkSettings, network: Network) -> TicketPolicy:
    untrusted = settings.untrusted_clearance.rank

    def clearance_of(origin: str) -> int:
        """Return the rank of the highest level that this node may send to the node with a log.

        A log that no node of the cluster announces counts as that of an unauthenticated node.
        """
        if origin == network.event_log.origin:
            return CLEARANCES[-1]
        node = None if network.state is None else network.state.map.node_of_origin(origin)
        if node is None:
            return untrusted
        cleared = [rank for rank in CLEARANCES if network.is_cleared(node, rank)]
        return max(cleared, default=untrusted)

    return TicketPolicy(
        must_sign=settings.require_signatures,
        revoked=[each.origin for each in settings.revoked_logs],
        clearance_of=clearance_of,
    )
