"""The node around a router."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Protocol

from broker.event.place import Mark
from broker.streams.contract import CarriedInterest, FlowBatch
from plugins.dcp.mesh.leaf_gate import TicketRules
from plugins.dcp.mesh.peers import IPeers


class IRouterHost(IPeers, Protocol):
    """The node around a router."""

    origin: str
    """Of the node's own log."""
    patterns: list[str]
    """Those whose flows the mesh carries."""

    tickets: TicketRules
    """Rules for tickets of clients."""

    def send(self, peer: Hashable, packets: list[bytes]) -> object:
        """Send packets to a peer."""

    def report(self, alarm: str) -> object:
        """Log an alarm that begins."""

    def open_peer(self, peer: Hashable) -> object:
        """Prepare to send to a peer that has sent nothing."""

    def keep_peer(self, peer: Hashable) -> object:
        """Let a peer have its link until `close_peer`, whatever strangers send."""

    def close_peer(self, peer: Hashable) -> object:
        """Forget a peer, unless it is used again by then."""

    def match(self, batch: FlowBatch) -> Sequence[frozenset[Hashable]]:
        """Return for each event the links behind which it is wanted."""

    def has_interest(self, batch: FlowBatch) -> Sequence[bool]:
        """See `ITransportContext.has_interest`."""

    def deliver(self, batch: FlowBatch) -> object:
        """Log and deliver a batch as far as this node's subscriptions want it."""

    def set_link_interest(
        self,
        link: Hashable,
        key: str,
        interest: CarriedInterest | None,
        on_active: Callable[[Mapping[str, Mark]], object],
    ) -> object:
        """Set or remove interest behind a link, as `ITransportContext.set_link_interest`."""
