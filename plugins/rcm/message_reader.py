"""Events in the messages of other sites."""

from __future__ import annotations

from collections.abc import Iterable

from broker.cluster.address import Address
from broker.errors import BadName, ProtocolError
from broker.transport.order import Message
from plugins.rcm.entries import Entries
from plugins.rcm.held_events import HeldEvent
from plugins.rcm.payload import decode_payload

#: Nodes move seldom.
MOST_ADDRESSES = 1_000


class MessageReader:
    def __init__(self, patterns: Iterable[str], entries: Entries) -> None:
        """`patterns` are the carrying patterns."""
        self._patterns = frozenset(patterns)
        self._entries = entries
        self._addresses: set[str] = set()
        """Addresses of nodes that were checked."""

    def read_message(self, message: Message, origin: str | None) -> HeldEvent:
        """Return the event of a message. `origin` is the log of its site, by the handshake.

        Raises `ProtocolError`.
        """
        payload = decode_payload(message.payload)
        site = message.id.site
        if origin is None:
            raise ProtocolError(f"{site} sent an event before its handshake")
        if payload.pattern not in self._patterns:
            raise ProtocolError(f"{site} sent an event of the pattern {payload.pattern!r}")
        self._check_address(payload.origin_node)
        flow = payload.flow_of(origin)
        # Its entry is not sent: the packet has the same.
        entry = self._entries.encode(message.id, message.stamp)
        event = payload.event.with_annotation(entry)
        node, after, upto = payload.origin_node, payload.after, payload.upto
        return HeldEvent(flow, node, after, upto, event, has_entry=True)

    def _check_address(self, text: str) -> None:
        """Raises `ProtocolError`."""
        if text not in self._addresses:
            try:
                Address.parse(text)
            except BadName as wrong:
                raise ProtocolError(f"address of a node: {wrong}") from None
            if len(self._addresses) >= MOST_ADDRESSES:
                self._addresses.clear()
            self._addresses.add(text)
