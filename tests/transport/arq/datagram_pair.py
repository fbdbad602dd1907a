from __future__ import annotations

from collections.abc import Sequence
from random import Random

from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface import implementer

from broker.errors import BrokerError
from broker.testing.datagram_network import DatagramFaults, DatagramNetwork, MemoryDatagramSocket
from broker.transport.arq import ArqSettings
from broker.transport.arq.connection_channel import ConnectionChannel
from broker.transport.arq.connection_endpoint import ConnectionEndpoint
from broker.transport.arq.handshake import NO_SECRET, LinkSecret
from broker.transport.socket import ISocketReceiver
from broker.transport.socket.contract import ISocketChannel

HERE = ("here", 1)
THERE = ("there", 2)
MAX_FRAME = 1024 * 1024


@implementer(ISocketReceiver)
class User:
    """Sends its packets as far as allowed, and stores received ones."""

    def __init__(self, channel: ISocketChannel, packets: Sequence[bytes] = ()) -> None:
        assert isinstance(channel, ConnectionChannel)
        self.channel = channel
        self.core = channel.core
        self.packets: list[bytes] = []
        self.losses: list[BrokerError | None] = []
        self.writable = True
        self._waiting = list(packets)
        channel.receiver = self
        self.send_more()

    def send_more(self) -> None:
        while self._waiting and self.writable:
            batch, self._waiting = self._waiting[:20], self._waiting[20:]
            self.channel.send(batch)

    def packets_received(self, packets: Sequence[bytes]) -> None:
        assert packets
        assert not self.losses
        self.packets += packets

    def channel_lost(self, error: BrokerError | None) -> None:
        self.losses.append(error)

    def writable_changed(self, writable: bool) -> None:
        self.writable = writable
        if writable:
            self.send_more()


class Pair:
    """A bad network with two endpoints in virtual time; HERE dials THERE."""

    def __init__(
        self,
        seed: int,
        faults: DatagramFaults | None = None,
        settings: ArqSettings | None = None,
        secrets: tuple[LinkSecret, LinkSecret] = (NO_SECRET, NO_SECRET),
    ) -> None:
        self.clock = Clock()
        self.random = Random(seed)
        self.network = DatagramNetwork(self.clock, seed, faults)
        self.settings = settings or ArqSettings()
        self.accepted: list[ISocketChannel] = []
        self.dialled: list[ISocketChannel] = []
        self.failures: list[Failure] = []
        self.wires: list[MemoryDatagramSocket] = []
        self.here = self.endpoint(HERE, secrets[0])
        self.there = self.endpoint(THERE, secrets[1])

    def endpoint(self, address: tuple[str, int], secret: LinkSecret) -> ConnectionEndpoint:
        wire = self.network.bind(address, lambda batch: endpoint.datagrams_received(batch))
        self.wires.append(wire)
        endpoint = ConnectionEndpoint(
            *(self.clock, wire, self.accepted.append, self.settings),
            *(self.random.randbytes, MAX_FRAME, str, secret),
        )
        return endpoint

    def dial(self) -> None:
        result = self.here.connect(THERE)
        result.addCallbacks(self.dialled.append, self.failures.append)

    def connected(self) -> tuple[ISocketChannel, ISocketChannel]:
        self.dial()
        self.run(lambda: bool(self.accepted and self.dialled), 10.0)
        assert self.dialled, self.failures
        assert self.accepted
        return self.dialled[-1], self.accepted[-1]

    def run(self, until: object, most: float) -> float:
        """Advance until a condition holds, or for `most` seconds; return the duration."""
        start = self.clock.seconds()
        while self.clock.seconds() < start + most:
            if callable(until) and until():
                break
            calls = self.clock.getDelayedCalls()
            if not calls:
                break
            self.clock.advance(
                max(0.0, min(call.getTime() for call in calls) - self.clock.seconds())
            )
        return self.clock.seconds() - start
