"""Who was a member of the cluster and is not on the map any more: they are dialled now and then.

When a network parts for long, each side forgets the other's tables. Somebody must remember, or a
cluster that fell into halves would never be one again.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.cluster.descriptor import NodeDescriptor
from broker.errors import BrokerError, NameTaken, WrongNetwork

#: Seconds for which a former member is remembered: longer than a night without an operator.
PEER_EXPIRY = 86_400.0
#: So many at most; those seen longest ago are forgotten first.
MOST_PEERS = 256


class KnownPeers:
    """The former members of one cluster."""

    def __init__(self, own: str) -> None:
        self._own = own
        #: In the order in which they were seen last.
        self._seen: dict[str, tuple[float, NodeDescriptor]] = {}

    def update(self, members: Mapping[str, NodeDescriptor], now: float) -> None:
        """These are on the map now."""
        for name, node in members.items():
            if name != self._own:
                self._seen.pop(name, None)
                self._seen[name] = (now, node)
        for name, (seen_at, _node) in list(self._seen.items()):
            if seen_at + PEER_EXPIRY > now and len(self._seen) <= MOST_PEERS:
                break
            del self._seen[name]

    def list_absent(self, members: Mapping[str, NodeDescriptor]) -> Mapping[str, NodeDescriptor]:
        """Those that are remembered and not on the map."""
        return {name: node for name, (_, node) in self._seen.items() if name not in members}

    def record_refusal(self, name: str, error: BrokerError) -> None:
        """The former member has said no to a link. Forgotten, if it is of another cluster now."""
        if isinstance(error, WrongNetwork | NameTaken):
            self._seen.pop(name, None)
