"""A peer beside an attack on a datagram port that measures round trips over its channel."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from twisted.internet.defer import Deferred
from zope.interface import implementer

from broker.errors import BrokerError
from broker.transport.arq.udp_port import UdpPort
from broker.transport.socket.contract import ISocketChannel, ISocketReceiver
from tests.security.bystander import FACTOR, NOISE

#: Of a measurement.
PACKETS: Final = 100


@implementer(ISocketReceiver)
class Echo:
    """Sends back what it receives."""

    def __init__(self, channel: ISocketChannel) -> None:
        self._channel = channel
        channel.receiver = self

    def packets_received(self, packets: Sequence[bytes]) -> None:
        self._channel.send(packets)

    def channel_lost(self, error: BrokerError | None) -> None:
        """The measurement fails by its time-out."""

    def writable_changed(self, writable: bool) -> None:
        """Single packets do not fill the send buffer."""


@implementer(ISocketReceiver)
class MeasuredPeer:
    """`channel` has an `Echo` at its other end."""

    @classmethod
    async def connect(cls, port: UdpPort, address: tuple[str, int]) -> MeasuredPeer:
        """Return a peer that has measured its latency without an attack."""
        peer = cls(await port.connect(*address))
        peer._baseline = await peer._time_packets()
        return peer

    def __init__(self, channel: ISocketChannel) -> None:
        self._channel = channel
        self._answer: Deferred[None] = Deferred()
        self._baseline = 0.0
        channel.receiver = self

    async def check(self) -> None:
        """Raise AssertionError if the attack more than doubles the 99th percentile."""
        seconds = await self._time_packets()
        assert seconds <= FACTOR * self._baseline + NOISE, (seconds, self._baseline)

    async def _time_packets(self) -> float:
        """Return the 99th percentile."""
        seconds = []
        for number in range(PACKETS):
            self._answer = Deferred()
            began = time.monotonic()
            self._channel.send([b"packet %d" % number])
            await self._answer
            seconds.append(time.monotonic() - began)
        return sorted(seconds)[PACKETS * 99 // 100 - 1]

    def packets_received(self, packets: Sequence[bytes]) -> None:
        self._answer.callback(None)

    def channel_lost(self, error: BrokerError | None) -> None:
        if not self._answer.called:
            self._answer.errback(error or ConnectionError("the channel is over"))

    def writable_changed(self, writable: bool) -> None:
        """Single packets do not fill the send buffer."""
