"""The contract of a socket channel: one connection that carries packets both ways."""

from __future__ import annotations

from collections.abc import Sequence

from zope.interface import Attribute, Interface

from broker.errors import BrokerError
from broker.transport.layer import Property

#: What holds above a socket channel over TCP, and above its fake in memory.
TCP_PROPERTIES = frozenset(
    {Property.FRAMED, Property.FIFO, Property.RELIABLE, Property.OUTAGE_NOTICE}
)

#: Bytes in one packet that a channel accepts unless told otherwise.
DEFAULT_MAX_FRAME = 16 * 1024 * 1024


class ISocketReceiver(Interface):
    """Who is told what a socket channel brings."""

    def packets_received(packets: Sequence[bytes]) -> None:
        """All whole packets that one read brought, in order; never an empty list."""

    def channel_lost(error: BrokerError | None) -> None:
        """The connection is over: told exactly once, last, and to the receiver of that moment.

        None after an orderly close by either end with nothing left half sent. Never called from
        inside `close` or `abort`; setting `receiver` on a channel that is already lost tells it
        at once.
        """

    def writable_changed(writable: bool) -> None:
        """Unsent bytes pile up (False), or have drained (True). May come from inside `send`."""


class IPartialPacketReceiver(ISocketReceiver):
    """One that wants to know that the peer is there while a long packet takes its time."""

    def partial_packet_received() -> None:
        """A read brought a part of a packet, and no whole one."""


class ISocketChannel(Interface):
    """One connection. While `receiver` is None nothing is read from it."""

    receiver: ISocketReceiver | None = Attribute("who is told; may be replaced at any time")
    peer_description: str = Attribute("the other end's address, for people to read")
    secure: bool = Attribute("whether the bytes are protected by TLS")
    certified_name: str = Attribute(
        "the common name in the peer's certificate, once packets have come, where both ends ask "
        "for one of an authority of theirs; else empty"
    )
    max_frame: int = Attribute("greatest packet accepted, in bytes; may be set at any time")

    def send(packets: Sequence[bytes]) -> None:
        """Send packets, in one write of the transport. Nothing happens once it is closed or lost.

        Takes whatever it is given: whoever sends bounds what is under way, with a layer that
        provides back-pressure or by `writable_changed`.

        Raises ValueError for an empty packet.
        """

    def close() -> None:
        """Send what was given to it, then close. From now on nothing more is delivered."""

    def abort(error: BrokerError) -> None:
        """Close at once, dropping what is unsent; `channel_lost` will be told `error`."""

    def pause() -> None:
        """Read no more. What had been read before is still delivered."""

    def resume() -> None:
        """Read again."""
