"""The contract of a layer: a description without state, and the core that it creates."""

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
    """What a layer can promise to the one above it."""

    #: What is sent as one message arrives as one message.
    FRAMED = "framed"
    #: Messages of one connection arrive in the order in which they were sent.
    FIFO = "fifo"
    #: Nothing is lost while the connection lasts.
    RELIABLE = "reliable"
    #: The end of a connection is told as a view.
    OUTAGE_NOTICE = "outage notice"
    #: A conversation survives reconnection without loss or duplicate.
    RESUMABLE = "resumable"
    #: A slow consumer stops the sender, with bounded memory at both ends.
    BACKPRESSURE = "back-pressure"


class ILayerCore(Interface):
    """One layer's state for one stack: sans-I/O, never called while one of its calls runs.

    `now` is monotonic time in seconds. Every method returns effects, which the driver applies in
    order. What the peer does wrong comes out as `Failed`, never as an exception; an exception out
    of a core is a bug in it and ends the use of the whole stack. The one exception that is part
    of the contract is `broker.errors.Overloaded` out of `submit`.
    """

    def submit(messages: Sequence[bytes], now: float) -> list[Effect]:
        """Take messages from above. Raises `Overloaded` and takes nothing if there is no room."""

    def receive(packets: Sequence[bytes], peer: Peer | None, now: float) -> list[Effect]:
        """Take packets from below: all that one read of the socket brought, as one batch.

        An empty one says that a part of a long packet has come: the peer is not silent.
        """

    def view_changed(view: View, now: float) -> list[Effect]:
        """The link below is in a new state. What was in flight below is gone if disconnected."""

    def consumed(count: int, now: float) -> list[Effect]:
        """The layer above has taken `count` delivered messages for good: its credit returns.

        Raises ValueError if that is more than was delivered.
        """

    def handle_timeout(now: float) -> list[Effect]:
        """Do what is due at `now`; nothing if nothing is. `next_timeout` must move past `now`."""

    def next_timeout() -> float | None:
        """The absolute time at which `handle_timeout` is wanted, or None. Asked often: be quick."""


class ILayer(Interface):
    """A layer's description: no state but its settings. One may serve in many stacks."""

    name: str = Attribute("what the layer is called in messages and configuration")
    version: int = Attribute("the version of its packet formats")
    requires: frozenset[Property] = Attribute("properties that must hold below it")
    provides: frozenset[Property] = Attribute("properties that hold above it by its own work")
    breaks: frozenset[Property] = Attribute("properties that do not hold above it even if below")

    def create_core() -> ILayerCore:
        """A new core, for one stack."""


@implementer(ILayerCore)
class PassThrough:
    """A core that changes nothing: the base of layers that change one thing."""

    def submit(self, messages: Sequence[bytes], now: float) -> list[Effect]:
        """Send the messages down as they are."""
        return [SendDown(messages)]

    def receive(self, packets: Sequence[bytes], peer: Peer | None, now: float) -> list[Effect]:
        """Deliver the packets as they are."""
        return [DeliverUp(packets, peer)]

    def view_changed(self, view: View, now: float) -> list[Effect]:
        """Pass the view up."""
        return [ViewChanged(view)]

    def consumed(self, count: int, now: float) -> list[Effect]:
        """Pass the credit down: messages above and packets below are the same."""
        return [Consumed(count)]

    def handle_timeout(self, now: float) -> list[Effect]:
        """Nothing is ever due."""
        return []

    def next_timeout(self) -> float | None:
        """There is no deadline."""
        return None
