"""Addresses of peers, as control messages carry them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import cast

from broker.config.value_kind import split_host_port
from broker.transport.socket.udp import format_address, resolve_address


class PeerAddresses:
    """The part of `plugins.dcp.mesh.peers.IPeers` that is equal for nodes and clients."""

    def describe_peer(self, peer: Hashable) -> str:
        return format_address(peer)

    def find_peer(self, address: str) -> Hashable | None:
        try:
            _, peer = resolve_address(*split_host_port(address))
            return cast(Hashable, peer)
        except (OSError, ValueError):
            return None
