"""Known peers: former cluster members that are dialled from time to time."""

from __future__ import annotations

from collections.abc import Mapping

from broker.cluster.descriptor import NodeDescriptor
from broker.errors import BrokerError, NameTaken, WrongNetwork

#: Seconds: longer than a night without an operator.
PEER_EXPIRY = 86_400.0
#: Those seen longest ago are dropped first.
MOST_PEERS = 256


class KnownPeers:
    """Known members of one cluster, which are dialled from time to time.

    After a long partition each side has dropped the other's tables: this lets both find each other
    again.
    """

    def __init__(self, own: str) -> None:
        self._own = own
        #: In the order of the last sighting.
        self._seen: dict[str, tuple[float, NodeDescriptor]] = {}

    def update(self, members: Mapping[str, NodeDescriptor], now: float) -> None:
        for name, node in members.items():
            if name != self._own:
                self._seen.pop(name, None)
                self._seen[name] = (now, node)
        for name, (seen_at, _node) in list(self._seen.items()):
            if seen_at + PEER_EXPIRY > now and len(self._seen) <= MOST_PEERS:
                break
            del self._seen[name]

    def list_absent(self, members: Mapping[str, NodeDescriptor]) -> Mapping[str, NodeDescriptor]:
        return {name: node for name, (_, node) in self._seen.items() if name not in members}

    def record_refusal(self, name: str, error: BrokerError) -> None:
        """Drop a peer that is in another cluster now."""
        if isinstance(error, WrongNetwork | NameTaken):
            self._seen.pop(name, None)
