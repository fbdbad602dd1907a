"""Strangers that fill the tables of a datagram port, beside a peer with a connection."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable
from typing import Any, cast

import pytest
from twisted.internet import reactor as the_reactor
from twisted.internet.task import deferLater

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


class Stranger:
    """A socket of an attacker that makes the first steps of handshakes."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((HERE, 0))
        self.socket.setblocking(False)
        self.target = target
        self.diallers: dict[int, Dialler] = {}

    def dial(self) -> None:
        dialler = Dialler(secrets.randbits(63), secrets.token_bytes, 1024, 0.0)
        self.diallers[dialler.client] = dialler
        self.send(dialler.next_datagram(0.0))

    def send(self, datagram: bytes) -> None:
        self.socket.sendto(datagram, self.target)

    def answer_cookies(self) -> None:
        """Send an OPEN for each COOKIE, and nothing after an ACCEPT."""
        while True:
            try:
                datagram, _ = self.socket.recvfrom(9000)
            except BlockingIOError:
                return
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
        return there, here

    def accept(self, channel: ISocketChannel) -> None:
        self.accepted.append(channel)
        Echo(channel)

    async def poll(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await deferLater(reactor, 0.005)

    @pytest.mark.limit("half-open links over UDP", "port")
    async def test_half_open_links_replace_each_other(self) -> None:
        there, here = self.open_ports(ArqSettings(half_open=HALF_OPEN))
        peer = await MeasuredPeer.connect(here, there.bound_address)
        counts, half_open = there.endpoint.counts, there.endpoint._half_open
        stranger = Stranger(there.bound_address)
        self.addCleanup(stranger.socket.close)

        async def fill(count: int, open_then: int, dropped: int) -> None:
            for _ in range(count):
                stranger.dial()

            def is_full() -> bool:
                stranger.answer_cookies()
                return (len(half_open), counts.dropped_half_open) == (open_then, dropped)

            await self.poll(is_full)

        await fill(HALF_OPEN, HALF_OPEN, 0)
        await fill(5, HALF_OPEN, 5)
        await peer.check()
        # A new peer takes the place of a stranger.
        await MeasuredPeer.connect(here, there.bound_address)
        await self.poll(lambda: len(self.accepted) == 2)

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
        port = there.udp.users.open_port("radar", lambda channel, _: met.append(channel), settings)
        for number in range(STRANGERS + 5):
            stranger = Stranger(there.bound_address)
            self.addCleanup(stranger.socket.close)
            stranger.send(derive_tag("radar") + b"hello")
            await self.poll(lambda count=number: len(met) == count + 1)  # type: ignore[misc]
            assert len(port._strangers) == min(number + 1, STRANGERS)
        await peer.check()
