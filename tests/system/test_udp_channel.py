"""The socket channel over real UDP sockets: the contract that TCP fulfils, and what is its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from twisted.internet import reactor as the_reactor
from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

from broker.channel.socket import ISocketChannel
from broker.channel.socket.datagram_channel import DatagramChannel
from broker.channel.socket.udp import UdpPort
from broker.errors import Closed
from broker.testing.socket_contract import NotingReceiver, SocketChannelContract

reactor = cast(Any, the_reactor)


class Events(TestCase):
    """A test case that waits for what its receivers are told."""

    timeout = 30

    def setUp(self) -> None:
        self.waiting: Deferred[None] | None = None

    def changed(self) -> None:
        """Something was told."""
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            # Not from inside the channel's call: the test goes on in a turn of its own.
            reactor.callLater(0, waiting.callback, None)

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.waiting = Deferred()
            await self.waiting


class UdpChannelTests(Events, SocketChannelContract):
    """The contract over UDP."""

    interface = "127.0.0.1"

    async def make_pair(self) -> tuple[ISocketChannel, ISocketChannel]:
        accepted: Deferred[ISocketChannel] = Deferred()
        there = UdpPort(reactor, self.interface, 0, accepted.callback, max_frame=self.max_frame)
        here = UdpPort(reactor, self.interface, 0, lambda _: None, max_frame=self.max_frame)
        for port in (there, here):
            port.start()
            self.addCleanup(port.stop)
        client = await here.connect(*there.host)
        server = await accepted
        for channel in (client, server):
            self.addCleanup(self.finish, channel)
        return client, server

    async def finish(self, channel: ISocketChannel) -> None:
        """No connection outlives its test."""
        noting = NotingReceiver(channel, self.changed)
        if not cast(DatagramChannel, channel).core.over:
            channel.abort(Closed("the test is over"))
            await self.until(lambda: bool(noting.losses))


class Udp6ChannelTests(UdpChannelTests):
    """The contract over UDP on IPv6."""

    interface = "::1"
