"""Table of nodes by the address of their links, one address for each node."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TypeVar

from broker.cluster.descriptor import Endpoint

T = TypeVar("T")


class PeerNames:
    """Pairs of node and address. The owner bounds them."""

    def __init__(self) -> None:
        self._peers: dict[str, Endpoint] = {}
        self._nodes: dict[Hashable, str] = {}

    def __iter__(self) -> Iterator[tuple[str, Endpoint]]:
        return iter(list(self._peers.items()))

    def peer_of(self, node: str, default: T) -> Endpoint | T:
        return self._peers.get(node, default)

    def node_at(self, peer: Hashable) -> str | None:
        return self._nodes.get(peer)

    def bind(self, node: str, peer: Endpoint) -> None:
        """Replace the pairs of both."""
        self.unbind(self._nodes.get(peer, node))
        self.unbind(node)
        self._peers[node] = peer
        self._nodes[peer] = node

    def unbind(self, node: str) -> None:
        peer = self._peers.pop(node, None)
        if peer is not None:
            del self._nodes[peer]
