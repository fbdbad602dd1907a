"""The binding of one socket channel to a stack."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zope.interface import implementer

from broker.errors import BrokerError, PeerSilent
from broker.transport.clock import IClock, IDelayed
from broker.transport.socket.contract import IPartialPacketReceiver, ISocketChannel

#: Seconds for the remaining bytes of a closing channel.
CLOSE_TIMEOUT = 10.0


@implementer(IPartialPacketReceiver)
class ChannelBinding:
    """Label the inputs of a stack: the driver ignores earlier channels."""

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
        self._on_packets(self, packets)

    def partial_packet_received(self) -> None:
        """Pass on an empty batch: a part of a packet shows that the peer is not silent."""
        self._on_packets(self, [])

    def channel_lost(self, error: BrokerError | None) -> None:
        if self._close_limit is not None and self._close_limit.active():
            self._close_limit.cancel()
        self._enqueue(self._on_lost, self, error)

    def writable_changed(self, writable: bool) -> None:
        self._enqueue(self._on_writable, self, writable)

    def close(self, clock: IClock) -> None:
        self.is_closing = True
        late = PeerSilent(
            f"the peer did not receive the last bytes within {CLOSE_TIMEOUT:g} seconds"
        )
        self._close_limit = clock.callLater(CLOSE_TIMEOUT, self.channel.abort, late)
        self.channel.close()
