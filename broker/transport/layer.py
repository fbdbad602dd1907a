"""The interface of a layer: a stateless description, and the core that it creates."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

from zope.interface import Attribute, Interface, implementer

from broker.transport.effects import (
    Consumed,
    DeliverUp,
    Effect,
    Outcomes,
    SendDown,
    ViewChanged,
    WritableChanged,
)
from broker.transport.message import Message, Peer
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
    #: A message may have several destinations, each with an outcome.
    ONE_TO_MANY = "one-to-many"
    #: Each destination receives the messages of one sender in the order in which they were sent.
    SENDER_ORDER = "order for each sender"
    #: All destinations receive messages in one order, those of different senders too.
    TOTAL_ORDER = "one order for all"
    #: All peers see the same views, in the same place among the messages.
    AGREED_MEMBERSHIP = "agreed membership"


class ClockOffset(NamedTuple):
    """Difference of a peer's site clock from the own one, in seconds."""

    offset: float
    uncertainty: float


class ILinkCore(Interface):
    """State of one layer on the link to one peer: sans-I/O, and never re-entered.

    `now` is monotonic time in seconds. Every method returns effects, which the driver applies in
    order. A fault of the peer is returned as `Failed`, never raised. An exception from a core is a
    bug in it and ends the use of the link, except `broker.errors.Overloaded` from `submit`.
    """

    def submit(packets: Sequence[bytes], now: float) -> list[Effect]:
        """Accept packets from above. Raises `Overloaded`, and accepts none, if there is no
        room."""

    def receive(packets: Sequence[bytes], now: float) -> list[Effect]:
        """Accept packets from below: all packets of one read of the socket, as one batch.

        An empty batch shows that a part of a long packet has arrived: the peer is not silent.
        """

    def view_changed(view: View, now: float) -> list[Effect]:
        """Handle a new state of the link below. After DISCONNECTED, packets in flight below
        are lost."""

    def consumed(count: int, now: float) -> list[Effect]:
        """Return the credit of `count` delivered packets with which the layer above has finished.

        Raises ValueError for more packets than were delivered.
        """

    def handle_timeout(now: float) -> list[Effect]:
        """Do the work due at `now`, if any. Afterwards `next_timeout` must lie after `now`."""

    def next_timeout() -> float | None:
        """Return the absolute time of the next `handle_timeout`, or None. Called often: must
        be fast."""


class IMonitorCore(ILinkCore):
    """The core of a layer that decides whether the peer is connected."""

    round_trip: float | None = Attribute("seconds of the last measurement")
    clock_offset: ClockOffset | None = Attribute("the peer's site clock, minus that of this site")

    def suspect(reason: str, now: float) -> list[Effect]:
        """Suspect the peer for its quality. The connection stays.

        The reason has at most 32 lower-case letters, spaces and hyphens. No effect without a
        connection.
        """


class IBufferingCore(ILinkCore):
    """The core of a layer that buffers packets while the peer is not connected."""

    def drop_unsent(now: float) -> list[Effect]:
        """Drop the packets that wait for the peer to be connected. Later ones are delivered
        without a notice of the loss. No effect on a connected peer."""

    def release_memory() -> None:
        """Count no buffer in the memory of all queues any more: the link is over."""


class ILayerCore(Interface):
    """State of one layer above the links of a stack: each method names the peer.

    Otherwise as `ILinkCore`. An exception ends the use of the whole stack. A layer's state is
    bounded by the peers that the owner has admitted: `peer_removed` drops it.
    """

    def submit(messages: Sequence[Message], now: float) -> list[Effect]:
        """Accept messages from above, each with its destinations.

        Raises `Overloaded`, and accepts none, if there is no room: then all outcomes are FULL.
        Otherwise the outcomes are complete after the returned effects. The lowest layer sets them.
        """

    def receive(messages: Sequence[Message], peer: Peer, now: float) -> list[Effect]:
        """Accept messages of `peer` from below, as one batch."""

    def outcomes(messages: Sequence[Message], now: float) -> list[Effect]:
        """Handle the outcomes of messages that this layer sent down. Must not send them again at
        once."""

    def view_changed(peer: Peer, view: View, now: float) -> list[Effect]:
        """Handle a new state of `peer`."""

    def writable_changed(peer: Peer, writable: bool, now: float) -> list[Effect]:
        """Handle that messages for `peer` are FULL below from now on (False), or accepted."""

    def consumed(peer: Peer, count: int, now: float) -> list[Effect]:
        """Return the credit of `count` delivered messages of `peer`."""

    def peer_removed(peer: Peer, now: float) -> list[Effect]:
        """Drop the state of a peer that its owner has removed. No view follows."""

    def handle_timeout(now: float) -> list[Effect]:
        """Do the work due at `now`, as in `ILinkCore`."""

    def next_timeout() -> float | None:
        """Return the time of the next `handle_timeout`, as in `ILinkCore`."""


class ILayer(Interface):
    """A description of a layer: no state but its settings. One object may serve many stacks.

    A layer has one core for all peers of a stack, unless it is an `ILinkLayer`.
    """

    name: str = Attribute("name of the layer in messages and configuration")
    version: int = Attribute("version of its packet formats")
    requires: frozenset[Property] = Attribute("properties required of the layers below")
    provides: frozenset[Property] = Attribute("properties that it adds for the layer above")
    breaks: frozenset[Property] = Attribute("properties that it removes for the layer above")

    def create_core() -> ILayerCore | ILinkCore:
        """Return a new core, for one stack."""


class ILinkLayer(ILayer):
    """A layer with the state of one link. The driver keeps a core for each peer."""

    def create_core() -> ILinkCore:
        """Return a new core, for one peer of one stack."""


@implementer(ILinkCore)
class LinkPassThrough:
    """A core that changes nothing: the base of layers of a link that change one thing."""

    def submit(self, packets: Sequence[bytes], now: float) -> list[Effect]:
        return [SendDown(packets)]

    def receive(self, packets: Sequence[bytes], now: float) -> list[Effect]:
        return [DeliverUp(packets)]

    def view_changed(self, view: View, now: float) -> list[Effect]:
        return [ViewChanged(view)]

    def consumed(self, count: int, now: float) -> list[Effect]:
        return [Consumed(count)]

    def handle_timeout(self, now: float) -> list[Effect]:
        return []

    def next_timeout(self) -> float | None:
        return None


@implementer(ILayerCore)
class PassThrough:
    """A core above the links that changes nothing."""

    def submit(self, messages: Sequence[Message], now: float) -> list[Effect]:
        return [SendDown(messages)]

    def receive(self, messages: Sequence[Message], peer: Peer, now: float) -> list[Effect]:
        return [DeliverUp(messages, peer)]

    def outcomes(self, messages: Sequence[Message], now: float) -> list[Effect]:
        return [Outcomes(messages)]

    def view_changed(self, peer: Peer, view: View, now: float) -> list[Effect]:
        return [ViewChanged(view, peer)]

    def writable_changed(self, peer: Peer, writable: bool, now: float) -> list[Effect]:
        return [WritableChanged(writable, peer)]

    def consumed(self, peer: Peer, count: int, now: float) -> list[Effect]:
        return [Consumed(count, peer)]

    def peer_removed(self, peer: Peer, now: float) -> list[Effect]:
        return []

    def handle_timeout(self, now: float) -> list[Effect]:
        return []

    def next_timeout(self) -> float | None:
        return None


def is_changed(core: ILayerCore, method: str) -> bool:
    """Return False if a core inherits this method of `PassThrough`."""
    return getattr(type(core), method, None) is not getattr(PassThrough, method)
