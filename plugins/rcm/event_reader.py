"""Reads the events in messages of other sites, which are hostile input."""

from __future__ import annotations

from collections.abc import Collection

from broker.cluster.address import Address
from broker.errors import BadName, ProtocolError
from broker.event.annotation import with_annotation
from broker.streams.contract import CarriedEvent
from broker.transport.order import Message
from plugins.rcm.entries import Entries
from plugins.rcm.held_events import HeldEvents
from plugins.rcm.payload import Payload

#: Nodes move seldom.
MOST_ADDRESSES = 1_000


class EventReader:
    def __init__(self, patterns: Collection[str], entries: Entries) -> None:
        """`patterns` are the carrying patterns."""
        self.origins: dict[str, str] = {}
        """Log of each site, by its handshake."""
        self._patterns = frozenset(patterns)
        self._entries = entries
        self._addresses: set[str] = set()
        """Addresses of nodes that were checked."""

    def read(self, site: str, message: Message, payload: Payload, bound: int) -> HeldEvents:
        """Return the events of a site's message, with their entries. Raises `ProtocolError`.

        `bound` is the error of the site's stamps in microseconds.
        """
        if len(payload.events) != message.length:
            raise ProtocolError(f"{site} sent {len(payload.events)} events as {message.length}")
        origin = self.origins.get(site)
        if origin is None:
            raise ProtocolError(f"{site} sent an event before its handshake")
        if payload.pattern not in self._patterns:
            raise ProtocolError(f"{site} sent an event of the pattern {payload.pattern!r}")
        node = payload.origin_node
        if node not in self._addresses:
            self._check_address(node)
        # Their entries are not sent: the packet has the same.
        entries = self._entries.encode(message.id, message.stamp, bound, message.length)
        marks, records, documents, levels = zip(*payload.events, strict=True)
        annotated = map(with_annotation, records, entries)
        events = list(map(CarriedEvent, marks, annotated, documents, levels))
        flow = payload.flow_of(origin)
        return HeldEvents(flow, node, payload.after, payload.upto, events, has_entry=True)

    def _check_address(self, text: str) -> None:
        """Raises `ProtocolError`."""
        try:
            Address.parse(text)
        except BadName as wrong:
            raise ProtocolError(f"address of a node: {wrong}") from None
        if len(self._addresses) >= MOST_ADDRESSES:
            self._addresses.clear()
        self._addresses.add(text)
