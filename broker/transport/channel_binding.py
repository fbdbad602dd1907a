"""The binding of one socket channel to a link."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from zope.interface import implementer

from broker.errors import BrokerError, PeerSilent
from broker.transport.clock import IClock, IDelayed
from broker.transport.socket.contract import IPartialPacketReceiver, ISocketChannel

#: Seconds for the remaining bytes of a closing channel.
CLOSE_TIMEOUT = 10.0


class ChannelUser(Protocol):
    """The link that a channel belongs to."""

    def receive_packets(self, binding: ChannelBinding, packets: Sequence[bytes]) -> None:
        """Take the packets of one read."""

    def lose_channel(self, binding: ChannelBinding, error: BrokerError | None) -> None:
        """Take the end of the channel."""

    def change_socket_writable(self, binding: ChannelBinding, writable: bool) -> None:
        """Take a change of the channel's writability."""


@implementer(IPartialPacketReceiver)
class ChannelBinding:
    """Label the inputs of a link, which ignores earlier channels."""

    def __init__(self, channel: ISocketChannel, link: ChannelUser) -> None:
        self.channel = channel
        self.is_closing = False
        self._link = link
        self._close_limit: IDelayed | None = None

    def packets_received(self, packets: Sequence[bytes]) -> None:
        self._link.receive_packets(self, packets)

    def partial_packet_received(self) -> None:
        """Pass on an empty batch: a part of a packet shows that the peer is not silent."""
        self._link.receive_packets(self, [])

    def channel_lost(self, error: BrokerError | None) -> None:
        if self._close_limit is not None and self._close_limit.active():
            self._close_limit.cancel()
        self._link.lose_channel(self, error)

    def writable_changed(self, writable: bool) -> None:
        self._link.change_socket_writable(self, writable)

    def close(self, clock: IClock) -> None:
        self.is_closing = True
        late = PeerSilent(
            f"the peer did not receive the last bytes within {CLOSE_TIMEOUT:g} seconds"
        )
        self._close_limit = clock.callLater(CLOSE_TIMEOUT, self.channel.abort, late)
        self.channel.close()
