"""The interface of a layer: a stateless description, and the core that it creates."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from zope.interface import Attribute, Interface, implementer

from broker.transport.effects import (
    Consumed,
    DeliverUp,
    Effect,
    Peer,
    SendDown,
    ViewChanged,
)
from broker.transport.view import View


class Property(enum.Enum):
    """A guarantee of a layer for the layer above it."""

    #: One message sent arrives as one message.
    FRAMED = "framed"
    #: Messages may be larger than a datagram.
    ANY_SIZE = "messages of any size"
    #: Damaged messages, and those of hosts without the key, are dropped.
    AUTHENTICATED = "authenticated"
    #: Messages of one connection arrive in the order in which they were sent.
    FIFO = "fifo"
    #: Nothing is lost while the connection lasts.
    RELIABLE = "reliable"
    #: The end of a connection is reported as a view.
    OUTAGE_NOTICE = "outage notice"
    #: Messages survive a reconnection without loss or duplicate.
    RESUMABLE = "resumable"
    #: A slow consumer stops the sender, with bounded memory at both ends.
    BACKPRESSURE = "back-pressure"


class ILayerCore(Interface):
    """State of one layer in one stack: sans-I/O, and never re-entered.

    `now` is monotonic time in seconds. Every method returns effects, which the driver applies in
    order. A fault of the peer is returned as `Failed`, never raised. An exception from a core is a
    bug in it and ends the use of the whole stack, except `broker.errors.Overloaded` from `submit`.
    """

    def submit(messages: Sequence[bytes], now: float) -> list[Effect]:
        """Accept messages from above. Raises `Overloaded`, and accepts none, if there is no
        room."""

    def receive(packets: Sequence[bytes], peer: Peer | None, now: float) -> list[Effect]:
        """Accept packets from below: all packets of one read of the socket, as one batch.

        An empty batch shows that a part of a long packet has arrived: the peer is not silent.
        """

    def view_changed(view: View, now: float) -> list[Effect]:
        """Handle a new state of the link below. After DISCONNECTED, packets in flight below
        are lost."""

    def consumed(count: int, now: float) -> list[Effect]:
        """Return the credit of `count` delivered messages with which the layer above has finished.

        Raises ValueError for more messages than were delivered.
        """

    def handle_timeout(now: float) -> list[Effect]:
        """Do the work due at `now`, if any. Afterwards `next_timeout` must lie after `now`."""

    def next_timeout() -> float | None:
        """Return the absolute time of the next `handle_timeout`, or None. Called often: must
        be fast."""


class ILayer(Interface):
    """A description of a layer: no state but its settings. One object may serve many stacks."""

    name: str = Attribute("name of the layer in messages and configuration")
    version: int = Attribute("version of its packet formats")
    requires: frozenset[Property] = Attribute("properties required of the layers below")
    provides: frozenset[Property] = Attribute("properties that it adds for the layer above")
    breaks: frozenset[Property] = Attribute("properties that it removes for the layer above")

    def create_core() -> ILayerCore:
        """Return a new core, for one stack."""


@implementer(ILayerCore)
class PassThrough:
    """A core that changes nothing: the base of layers that change one thing."""

    def submit(self, messages: Sequence[bytes], now: float) -> list[Effect]:
        return [SendDown(messages)]

    def receive(self, packets: Sequence[bytes], peer: Peer | None, now: float) -> list[Effect]:
        return [DeliverUp(packets, peer)]

    def view_changed(self, view: View, now: float) -> list[Effect]:
        return [ViewChanged(view)]

    def consumed(self, count: int, now: float) -> list[Effect]:
        return [Consumed(count)]

    def handle_timeout(self, now: float) -> list[Effect]:
        return []

    def next_timeout(self) -> float | None:
        return None
