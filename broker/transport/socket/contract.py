"""The interface of a socket channel: one connection that carries packets both ways."""

from __future__ import annotations

from collections.abc import Sequence

from zope.interface import Attribute, Interface

from broker.errors import BrokerError
from broker.transport.layer import Property

#: Also of the fake in memory.
TCP_PROPERTIES = frozenset(
    {
        *(Property.FRAMED, Property.ANY_SIZE, Property.FIFO, Property.RELIABLE),
        Property.OUTAGE_NOTICE,
    }
)
#: Of a raw datagram channel.
DATAGRAM_PROPERTIES = frozenset({Property.FRAMED})

#: Bytes.
DEFAULT_MAX_FRAME = 16 * 1024 * 1024


class ISocketReceiver(Interface):
    """Receiver of the packets and events of a socket channel."""

    def packets_received(packets: Sequence[bytes]) -> None:
        """Receive all whole packets of one read, in order; never an empty list."""

    def channel_lost(error: BrokerError | None) -> None:
        """The connection has ended. Called exactly once, last, on the receiver of that moment.

        `error` is None after an orderly close by either end without half-sent data. Never called
        from inside `close` or `abort`. Setting `receiver` on a lost channel calls it at once.
        """

    def writable_changed(writable: bool) -> None:
        """Unsent bytes accumulate (False), or have drained (True). May be called from inside
        `send`."""


class IPartialPacketReceiver(ISocketReceiver):
    """A receiver that also learns of parts of a long packet, since they show that the peer is
    there."""

    def partial_packet_received() -> None:
        """A read brought a part of a packet, and no whole one."""


class ISocketChannel(Interface):
    """One connection. It reads nothing while `receiver` is None."""

    receiver: ISocketReceiver | None = Attribute(
        "receiver of the packets; may be replaced at any time"
    )
    peer_description: str = Attribute("address of the other end, for people")
    secure: bool = Attribute("whether the bytes are protected by TLS")
    confidential: bool = Attribute(
        "whether no network carries the bytes in clear text: TLS, or both ends on this machine"
    )
    certified_name: str = Attribute(
        "the common name in the peer's certificate, once packets have come, where both ends ask "
        "for one of an authority of theirs; else empty"
    )
    max_frame: int = Attribute("largest packet accepted, in bytes; may be set at any time")

    def send(packets: Sequence[bytes]) -> None:
        """Send packets in one write of the transport; no effect on a closed or lost channel.

        Accepts any amount. The caller bounds the bytes in flight, by a layer with back-pressure or
        by `writable_changed`. Raises ValueError for an empty packet.
        """

    def close() -> None:
        """Send the remaining bytes, then close. Nothing more is delivered."""

    def abort(error: BrokerError) -> None:
        """Close at once and drop unsent bytes; `channel_lost` receives `error`."""

    def pause() -> None:
        """Stop reading. Packets read before are still delivered."""

    def resume() -> None:
        """Continue to read."""


class ITlsChannel(ISocketChannel):
    """A channel whose transport may be TLS."""

    binding_kind: str = Attribute(
        "the channel binding of TLS that this end proposes as a client; empty without TLS"
    )

    def binding_data(kind: str) -> bytes | None:
        """Return the data of a channel binding, which only the two ends share, once packets have
        come; None if the connection has none of this kind."""

    def peer_certificate() -> bytes | None:
        """Return the peer's certificate in DER, once packets have come, if TLS has verified one."""


class IDatagramChannel(ISocketChannel):
    """Raw datagrams to and from one address.

    A packet may be lost, doubled, or overtaken. The peer learns nothing of a channel or its end,
    and `channel_lost` follows only this end's `close`, `abort`, or stop. Packets larger than
    `max_frame` are dropped. So are packets beyond a bound that arrive without a receiver, or during
    a pause. `writable_changed` is never called.
    """

    max_packet: int = Attribute("largest packet that `send` accepts, in bytes")

    def send(packets: Sequence[bytes]) -> None:
        """Send or lose packets, each as a datagram; no effect on a lost channel.

        Raises ValueError, and sends none, for an empty packet or one above `max_packet`.
        """


def peer_host(channel: ISocketChannel) -> str:
    """Return the address of the other end without its port."""
    return channel.peer_description.rpartition(":")[0].strip("[]")
