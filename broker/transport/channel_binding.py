"""The tie between a stack and one of its socket channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zope.interface import implementer

from broker.errors import BrokerError, PeerSilent
from broker.transport.clock import IClock, IDelayed
from broker.transport.socket.contract import IPartialPacketReceiver, ISocketChannel

#: Seconds that a closing channel has to flush.
CLOSE_TIMEOUT = 10.0


@implementer(IPartialPacketReceiver)
class ChannelBinding:
    """Labels the inputs of a stack with the channel that they came by.

    So the driver can ignore inputs of a previous channel.
    """

    def __init__(
        self,
        channel: ISocketChannel,
        enqueue: Callable[..., None],
        on_packets: Callable[[ChannelBinding, Sequence[bytes]], None],
        on_lost: Callable[[ChannelBinding, BrokerError | None], None],
        on_writable: Callable[[ChannelBinding, bool], None],
    ) -> None:
        self.channel = channel
        self.is_closing = False
        self._enqueue = enqueue
        self._on_packets = on_packets
        self._on_lost = on_lost
        self._on_writable = on_writable
        self._close_limit: IDelayed | None = None

    def packets_received(self, packets: Sequence[bytes]) -> None:
        """A batch from the socket."""
        self._on_packets(self, packets)

    def partial_packet_received(self) -> None:
        """A long packet is on its way: an empty batch, since the peer is not silent."""
        self._on_packets(self, [])

    def channel_lost(self, error: BrokerError | None) -> None:
        """The channel is no more."""
        if self._close_limit is not None and self._close_limit.active():
            self._close_limit.cancel()
        self._enqueue(self._on_lost, self, error)

    def writable_changed(self, writable: bool) -> None:
        """The channel's buffer is full, or has drained."""
        self._enqueue(self._on_writable, self, writable)

    def close(self, clock: IClock) -> None:
        """Close the channel in good order, and in limited time."""
        self.is_closing = True
        late = PeerSilent(f"the peer did not take the last bytes in {CLOSE_TIMEOUT:g} seconds")
        self._close_limit = clock.callLater(CLOSE_TIMEOUT, self.channel.abort, late)
        self.channel.close()
