"""Channels that send their last bytes before they close."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zope.interface import implementer

from broker.errors import BrokerError, PeerSilent
from broker.transport.clock import IClock, IDelayed
from broker.transport.socket.contract import ISocketChannel, ISocketReceiver

#: Seconds. A refusal is short.
CLOSE_TIMEOUT: Final = 1.0
#: Beyond this the oldest is aborted.
MAX_CLOSING: Final = 64


class ClosingChannels:
    """Channels without a user that send their last bytes.

    A peer that reads nothing, or whose TLS handshake has not ended, would hold a channel for ever.
    So each is aborted after `timeout` seconds, and the oldest one beyond `MAX_CLOSING`.
    """

    def __init__(self, clock: IClock, timeout: float = CLOSE_TIMEOUT) -> None:
        self._clock = clock
        self._timeout = timeout
        self._closing: dict[_Closing, None] = {}

    def __len__(self) -> int:
        return len(self._closing)

    def close(self, channel: ISocketChannel, last_packet: bytes = b"") -> None:
        """Send one more packet, if any, and close."""
        if last_packet:
            channel.send([last_packet])
        channel.close()
        closing = _Closing(channel, self._closing)
        closing.limit = self._clock.callLater(self._timeout, closing.abort)
        self._closing[closing] = None
        channel.receiver = closing
        if len(self._closing) > MAX_CLOSING:
            next(iter(self._closing)).abort()

    def abort_all(self) -> None:
        for closing in list(self._closing):
            closing.abort()


@implementer(ISocketReceiver)
class _Closing:
    limit: IDelayed

    def __init__(self, channel: ISocketChannel, others: dict[_Closing, None]) -> None:
        self._channel = channel
        self._others = others

    def abort(self) -> None:
        self._remove()
        self._channel.abort(PeerSilent("the peer did not receive the last bytes in time"))

    def channel_lost(self, error: BrokerError | None) -> None:
        self._remove()

    def packets_received(self, packets: Sequence[bytes]) -> None:
        """Ignored: nothing is delivered after `close`."""

    def writable_changed(self, writable: bool) -> None:
        """Ignored: nothing else is sent."""

    def _remove(self) -> None:
        self._others.pop(self, None)
        if self.limit.active():
            self.limit.cancel()
