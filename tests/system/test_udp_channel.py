from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from twisted.internet import reactor as the_reactor
from twisted.internet.defer import Deferred
from twisted.internet.error import CannotListenError
from zope.interface import implementer

from broker.errors import Closed
from broker.testing.socket_contract import RecordingReceiver, SocketChannelContract
from broker.transport.arq.connection_channel import ConnectionChannel
from broker.transport.arq.udp_port import UdpPort
from broker.transport.driver import IStackReceiver, StackDriver
from broker.transport.p2p import P2PLayer
from broker.transport.socket import ISocketChannel
from broker.transport.view import LinkState, View
from tests.system.waiting_test_case import WaitingTestCase

reactor = cast(Any, the_reactor)


class UdpChannelTests(WaitingTestCase, SocketChannelContract):
    interface = "127.0.0.1"

    async def make_pair(self) -> tuple[ISocketChannel, ISocketChannel]:
        accepted: Deferred[ISocketChannel] = Deferred()
        there = UdpPort(reactor, self.interface, 0, accepted.callback, max_frame=self.max_frame)
        here = UdpPort(reactor, self.interface, 0, lambda _: None, max_frame=self.max_frame)
        for port in (there, here):
            port.start()
            self.addCleanup(port.stop)
        client = await here.connect(*there.bound_address)
        server = await accepted
        for channel in (client, server):
            self.addCleanup(self.finish, channel)
        return client, server

    async def finish(self, channel: ISocketChannel) -> None:
        receiver = RecordingReceiver(channel, self.changed)
        if not cast(ConnectionChannel, channel).core.is_over:
            channel.abort(Closed("the test is over"))
            await self.until(lambda: bool(receiver.losses))


class Udp6ChannelTests(UdpChannelTests):
    interface = "::1"


class UdpPortTests(WaitingTestCase):
    def test_used_port_can_not_be_bound(self) -> None:
        first = UdpPort(reactor, "127.0.0.1", 0, lambda _: None)
        first.start()
        self.addCleanup(first.stop)
        second = UdpPort(reactor, *first.bound_address, lambda _: None)
        with self.assertRaises(CannotListenError):
            second.start()
        with self.assertRaises(Closed):
            second.connect(*first.bound_address)

    async def test_address_of_another_family_or_no_address_fails(self) -> None:
        port = UdpPort(reactor, "127.0.0.1", 0, lambda _: None)
        port.start()
        self.addCleanup(port.stop)
        for host in ("::1", "no address"):
            with self.assertRaises(OSError):
                await port.connect(host, 1)

    async def test_stopping_closes_all_channels_and_their_peers(self) -> None:
        accepted: Deferred[ISocketChannel] = Deferred()
        there = UdpPort(reactor, "127.0.0.1", 0, accepted.callback)
        here = UdpPort(reactor, "127.0.0.1", 0, lambda _: None)
        for port in (there, here):
            port.start()
            self.addCleanup(port.stop)
        client = RecordingReceiver(await here.connect(*there.bound_address), self.changed)
        server = RecordingReceiver(await accepted, self.changed)
        there.stop()
        await self.until(lambda: bool(client.losses and server.losses))
        assert isinstance(server.losses[0], Closed)
        assert len(client.losses) == 1


@implementer(IStackReceiver)
class CollectingUser:
    def __init__(self, changed: Callable[[], None], incarnation: int) -> None:
        self.changed = changed
        self.messages: list[bytes] = []
        self.view: View | None = None
        self.driver = StackDriver([P2PLayer(incarnation=incarnation)], reactor, self).join("peer")

    def messages_received(self, peer: object, messages: Sequence[bytes]) -> None:
        self.messages += messages
        self.driver.consumed(len(messages))
        self.changed()

    def view_changed(self, peer: object, view: View) -> None:
        self.view = view
        self.changed()

    def writable_changed(self, peer: object, writable: bool) -> None:
        self.changed()

    def is_disconnected(self) -> bool:
        return self.view is not None and self.view.state is LinkState.DISCONNECTED


class StackOverUdpTests(WaitingTestCase):
    async def test_messages_survive_broken_connections(self) -> None:
        client, server = CollectingUser(self.changed, 1), CollectingUser(self.changed, 2)
        there = UdpPort(reactor, "127.0.0.1", 0, server.driver.attach)
        here = UdpPort(reactor, "127.0.0.1", 0, lambda _: None)
        for port in (there, here):
            port.start()
            self.addCleanup(port.stop)
        sent: list[bytes] = []
        for turn in range(5):
            client.driver.attach(await here.connect(*there.bound_address))
            batch = [b"%d %d" % (turn, number) + bytes(number) for number in range(1000)]
            client.driver.send(batch)
            sent += batch
            half = len(sent) - 500
            await self.until(lambda half=half: len(server.messages) > half)  # type: ignore[misc]
            if turn < 4:
                client.driver.abort(Closed("broken on purpose"))
        await self.until(lambda: len(server.messages) == len(sent))
        assert server.messages == sent
        client.driver.close()
        await self.until(client.is_disconnected)
        await self.until(server.is_disconnected)
