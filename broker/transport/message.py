"""Messages between the layers above the links, and the outcome for each destination."""

from __future__ import annotations

import enum
from collections.abc import Hashable
from typing import TypeAlias

import attrs

from broker.errors import ProtocolError
from broker.transport.shared_message import SharedMessage

Peer: TypeAlias = Hashable


class Outcome(enum.Enum):
    #: Accepted: it arrives once and in order, unless the peer restarts.
    SENT = "sent"
    #: Back-pressure: it was not accepted. Messages before and after it arrive in order.
    FULL = "full"
    #: Not accepted, since the peer is unknown or disconnected.
    ABSENT = "absent"


@attrs.define(eq=False)
class Message:
    """One message on its way through the layers.

    A layer pushes its header on the way down. The same layer at the other end pops it on the way
    up. Between two ends a message is the bytes of its headers, the last pushed first, then its
    payload.
    """

    payload: bytes
    source: Peer | None = None
    destinations: tuple[Peer, ...] = ()
    #: May use the room of a link that is kept free of others: FULL only if it does not fit.
    is_urgent: bool = False
    #: By destination; complete when `submit` of the layer below is done.
    outcomes: dict[Peer, Outcome] = attrs.field(factory=dict)
    _headers: tuple[bytes, ...] = ()
    _encoded: bytes | None = None

    def push(self, header: bytes) -> None:
        self._headers = (header, *self._headers)
        self._encoded = None

    def pop(self, size: int) -> bytes:
        """Remove a header of `size` bytes from a received message.

        Raises `ProtocolError` if the message is shorter.
        """
        if len(self.payload) < size:
            raise ProtocolError(f"a message of {len(self.payload)} bytes lacks its header")
        header, self.payload = self.payload[:size], self.payload[size:]
        return header

    def encode(self) -> bytes:
        """Return the bytes for the links; a link checks those for several peers once."""
        if self._encoded is None:
            data = b"".join((*self._headers, self.payload)) if self._headers else self.payload
            if len(self.destinations) > 1 and not isinstance(data, SharedMessage):
                data = SharedMessage(data)
            self._encoded = data
        return self._encoded
