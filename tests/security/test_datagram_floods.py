"""Strangers that fill the tables of a datagram port, beside a peer with a connection."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, cast

import pytest
from twisted.internet import reactor as the_reactor
from twisted.internet.protocol import DatagramProtocol

from broker.transport.arq.handshake import Dialler, DialStep
from broker.transport.arq.settings import ArqSettings
from broker.transport.arq.udp_port import UdpPort
from broker.transport.arq.wire import decode_head
from broker.transport.socket import IDatagramChannel, ISocketChannel
from broker.transport.socket.datagram_demultiplexer import derive_tag
from broker.transport.socket.datagram_port import DatagramPortSettings
from tests.security.measured_peer import Echo, MeasuredPeer
from tests.system.waiting_test_case import WaitingTestCase

pytestmark = pytest.mark.system

reactor = cast(Any, the_reactor)
HERE = "127.0.0.1"
HALF_OPEN, LINKS, STRANGERS = 8, 12, 8


class Stranger(DatagramProtocol):
    """An attacker's socket that makes the first steps of handshakes.

    It sends an OPEN for each COOKIE, and nothing after an ACCEPT.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self.diallers: dict[int, Dialler] = {}
        self.port = reactor.listenUDP(0, self, interface=HERE)

    def dial(self) -> None:
        dialler = Dialler(secrets.randbits(63), secrets.token_bytes, 1024, 0.0)
        self.diallers[dialler.client] = dialler
        self.send(dialler.next_datagram(0.0))

    def send(self, datagram: bytes) -> None:
        self.port.write(datagram, self.target)

    def datagramReceived(self, datagram: bytes, addr: object) -> None:
        dialler = self.diallers[decode_head(datagram)[1]]
        if dialler.receive(datagram, 0.0) is DialStep.SEND_NOW:
            self.send(dialler.next_datagram(0.0))


class DatagramFloodTests(WaitingTestCase):
    def open_ports(self, settings: ArqSettings) -> tuple[UdpPort, UdpPort]:
        """Return an attacked port, and that of a peer."""
        there = UdpPort(reactor, HERE, 0, self.accept, settings)
        here = UdpPort(reactor, HERE, 0, lambda _: None)
        for port in (there, here):
            port.start()
            self.addCleanup(port.stop)
        self.accepted: list[ISocketChannel] = []

        def receive(batch: Sequence[tuple[bytes, Any]]) -> None:
            there.endpoint.datagrams_received(batch)
            self.changed()

        there.udp.users.set_untagged_user(receive)
        return there, here

    def open_stranger(self, port: UdpPort) -> Stranger:
        stranger = Stranger(port.bound_address)
        self.addCleanup(stranger.port.stopListening)
        return stranger

    def accept(self, channel: ISocketChannel) -> None:
        self.accepted.append(channel)
        Echo(channel)
        self.changed()

    @pytest.mark.limit("half-open links over UDP", "port")
    async def test_half_open_links_replace_each_other(self) -> None:
        there, here = self.open_ports(ArqSettings(half_open=HALF_OPEN))
        peer = await MeasuredPeer.connect(here, there.bound_address)
        counts, half_open = there.endpoint.counts, there.endpoint._half_open
        stranger = self.open_stranger(there)

        async def fill(count: int, open_then: int, dropped: int) -> None:
            for _ in range(count):
                stranger.dial()

            await self.until(
                lambda: (len(half_open), counts.dropped_half_open) == (open_then, dropped)
            )

        await fill(HALF_OPEN, HALF_OPEN, 0)
        await fill(5, HALF_OPEN, 5)
        await peer.check()
        # A new peer takes the place of a stranger.
        await MeasuredPeer.connect(here, there.bound_address)
        await self.until(lambda: len(self.accepted) == 2)

    @pytest.mark.limit("links over UDP", "port")
    async def test_links_beyond_the_bound_are_refused(self) -> None:
        there, here = self.open_ports(ArqSettings(connections=LINKS))
        peer = await MeasuredPeer.connect(here, there.bound_address)
        for _ in range(LINKS - 1):
            await here.connect(*there.bound_address)
        with self.assertRaisesRegex(Exception, "too many connections"):
            await here.connect(*there.bound_address)
        assert there.endpoint.counts.refused == 1
        await peer.check()

    @pytest.mark.limit("channels of strangers on a stack's port", "port")
    async def test_strangers_have_few_channels(self) -> None:
        there, here = self.open_ports(ArqSettings())
        peer = await MeasuredPeer.connect(here, there.bound_address)
        met: list[IDatagramChannel] = []
        settings = DatagramPortSettings(strangers=STRANGERS, stranger_silence=0.0)

        def meet(channel: IDatagramChannel, _: object) -> None:
            met.append(channel)
            self.changed()

        port = there.udp.users.open_port("radar", meet, settings)
        for number in range(STRANGERS + 5):
            self.open_stranger(there).send(derive_tag("radar") + b"hello")
            await self.until(lambda count=number: len(met) == count + 1)  # type: ignore[misc]
            assert len(port._strangers) == min(number + 1, STRANGERS)
        await peer.check()
