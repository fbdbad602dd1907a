"""Addresses of nodes in a mesh."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from broker.streams.ticket import ClientTicket


class IPeers(Protocol):
    """Addresses of nodes, as control messages carry them."""

    name: str
    ticket: ClientTicket | None
    """Of a client; None at a node."""

    def describe_peer(self, peer: Hashable) -> str:
        """Return the address of a peer, as `find_peer` takes it."""

    def find_peer(self, address: str) -> Hashable | None:
        """Return the peer with an address; None for an address that can not be used."""
