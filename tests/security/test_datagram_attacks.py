"""Raw sockets against links over UDP: forged, recorded, reflected and truncated datagrams."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, cast

import pytest
from twisted.internet import reactor as the_reactor
from twisted.internet.task import LoopingCall

from broker.errors import AuthenticationFailed, Closed
from broker.testing.socket_contract import RecordingReceiver
from broker.transport.arq.connection_channel import ConnectionChannel
from broker.transport.arq.handshake import LinkSecret
from broker.transport.arq.udp_port import UdpPort
from broker.transport.socket import ISocketChannel
from tests.system.waiting_test_case import WaitingTestCase

pytestmark = pytest.mark.system

reactor = cast(Any, the_reactor)
SECRET = LinkSecret(b"the secret of the network", allows_old=False)
HERE = "127.0.0.1"


class Proxy:
    """An attacker on the path: it forwards, records, and sends from its own place in it."""

    def __init__(self, target: tuple[str, int], on_tick: Callable[[], None]) -> None:
        self.inner, self.outer = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in "ab")
        for each in (self.inner, self.outer):
            each.bind((HERE, 0))
            each.setblocking(False)
        self.address = self.outer.getsockname()
        self.target = target
        self._on_tick = on_tick
        self.client: tuple[str, int] | None = None
        self.to_server: list[bytes] = []
        self.to_client: list[bytes] = []
        self._polling = LoopingCall(self._forward)
        self._polling.start(0.002)

    def _forward(self) -> None:
        for source, recorded, send in (
            (self.outer, self.to_server, self.send_to_server),
            (self.inner, self.to_client, self.send_to_client),
        ):
            while True:
                try:
                    datagram, address = source.recvfrom(9000)
                except BlockingIOError:
                    break
                if source is self.outer:
                    self.client = address
                recorded.append(datagram)
                send(datagram)
        self._on_tick()

    def send_to_server(self, datagram: bytes) -> None:
        self.inner.sendto(datagram, self.target)

    def send_to_client(self, datagram: bytes) -> None:
        assert self.client is not None
        self.outer.sendto(datagram, self.client)

    def stop(self) -> None:
        self._polling.stop()
        self.inner.close()
        self.outer.close()


class DatagramAttackTests(WaitingTestCase):
    def open_port(
        self, secret: LinkSecret, on_connect: Callable[[ISocketChannel], None]
    ) -> UdpPort:
        port = UdpPort(reactor, HERE, 0, on_connect, secret=secret)
        port.start()
        self.addCleanup(port.stop)
        return port

    async def test_an_attacker_on_the_path_changes_nothing(self) -> None:
        accepted: list[ISocketChannel] = []
        there = self.open_port(SECRET, accepted.append)
        here = self.open_port(SECRET, lambda _: None)
        proxy = Proxy(there.bound_address, self.changed)
        self.addCleanup(proxy.stop)
        dialled = await here.connect(*proxy.address)
        await self.until(lambda: bool(accepted))
        ends = [RecordingReceiver(each, self.changed) for each in (dialled, accepted[0])]
        cores = [cast(ConnectionChannel, each).core for each in (dialled, accepted[0])]
        for number in range(20):
            dialled.send([b"to %d" % number])
            accepted[0].send([b"from %d" % number])
        await self.until(lambda: all(len(each.packets) == 20 for each in ends))
        to_server, to_client = list(proxy.to_server), list(proxy.to_client)
        for recorded, send, back in (
            (to_server, proxy.send_to_server, proxy.send_to_client),
            (to_client, proxy.send_to_client, proxy.send_to_server),
        ):
            for datagram in recorded:
                send(datagram)
                back(datagram)
                send(datagram[:-1])
                send(datagram[:9])
                send(datagram[:12] + b"forged" + datagram[18:])
        await self.until(lambda: all(core.counters.replayed >= 2 for core in cores))
        await self.until(lambda: all(core.counters.forged >= 3 for core in cores))
        dialled.send([b"last"])
        accepted[0].send([b"last"])
        await self.until(lambda: all(each.packets[-1] == b"last" for each in ends))
        assert [len(each.packets) for each in ends] == [21, 21]
        assert not any(each.losses for each in ends) and len(accepted) == 1
        dialled.abort(Closed("the test is over"))
        await self.until(lambda: all(each.losses for each in ends))
        # Recorded datagrams of an ended connection open nothing.
        proxy.to_client.clear()
        for datagram in to_server:
            proxy.send_to_server(datagram)
        await self.until(lambda: len(proxy.to_client) >= 2)
        assert len(accepted) == 1

    async def test_a_stranger_gets_fewer_bytes_than_it_sends_and_no_state(self) -> None:
        there = self.open_port(SECRET, lambda _: self.fail("a stranger was accepted"))
        stranger = self.open_port(LinkSecret(b"a guess of a secret"), lambda _: None)
        proxy = Proxy(there.bound_address, self.changed)
        self.addCleanup(proxy.stop)
        with self.assertRaises(AuthenticationFailed):
            await stranger.connect(*proxy.address)
        assert sum(map(len, proxy.to_client)) < sum(map(len, proxy.to_server))
        assert not there.endpoint._channels and not there.endpoint._half_open
        assert there.endpoint.counts.wrong_secrets >= 1
