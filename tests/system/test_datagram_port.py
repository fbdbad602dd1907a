"""Raw datagrams over real sockets."""

from __future__ import annotations

import socket
from typing import Any, cast

from twisted.internet import reactor as the_reactor
from twisted.internet.defer import Deferred
from twisted.internet.error import CannotListenError
from twisted.trial.unittest import SkipTest

from broker.testing.datagram_contract import DatagramChannelContract
from broker.testing.socket_contract import RecordingReceiver
from broker.transport.arq.udp_port import UdpPort
from broker.transport.socket import IDatagramChannel, ISocketChannel
from broker.transport.socket.datagram_port import DatagramPort
from broker.transport.socket.datagram_transport import Address
from broker.transport.socket.multicast import MulticastSocket
from broker.transport.socket.udp import UdpSocket
from examples.free_ports import free_port
from tests.capability import skipped
from tests.system.waiting_test_case import WaitingTestCase
from tests.transport.datagram_ends import End
from tests.transport.documented import DOCUMENT, documented

reactor = cast(Any, the_reactor)


class DatagramChannelTests(WaitingTestCase, DatagramChannelContract):
    interface = "127.0.0.1"

    async def make_pair(self) -> tuple[IDatagramChannel, IDatagramChannel]:
        sockets = [UdpSocket(reactor, self.interface, 0) for _ in range(2)]
        for each in sockets:
            each.start()
            self.addCleanup(each.stop)
        here, there = sockets
        return (
            here.users.open_port("radar").connect(here.resolve(*there.bound_address)),
            there.users.open_port("radar").connect(there.resolve(*here.bound_address)),
        )


class Datagram6ChannelTests(DatagramChannelTests):
    interface = "::1"


class SharedUdpTests(WaitingTestCase):
    async def test_connections_and_raw_datagrams_share_one_port(self) -> None:
        accepted: Deferred[ISocketChannel] = Deferred()
        there = UdpPort(reactor, "127.0.0.1", 0, accepted.callback)
        here = UdpPort(reactor, "127.0.0.1", 0, lambda _: None)
        for port in (there, here):
            port.start()
            self.addCleanup(port.stop)
        raw: list[RecordingReceiver] = []
        there.udp.users.open_port(
            "radar", lambda channel, _: raw.append(RecordingReceiver(channel, self.changed))
        )
        target = here.udp.resolve(*there.bound_address)
        here.udp.users.open_port("radar").connect(target).send([b"raw"])
        client = await here.connect(*there.bound_address)
        client.send([b"whole", bytes(100_000)])
        server = RecordingReceiver(await accepted, self.changed)
        await self.until(lambda: len(server.packets) == 2 and bool(raw and raw[0].packets))
        assert server.packets == [b"whole", bytes(100_000)]
        assert raw[0].packets == [b"raw"]
        there.stop()
        await self.until(lambda: bool(raw[0].losses and server.losses))


class DocumentedStackTests(WaitingTestCase):
    async def test_the_documented_stack_carries_messages_of_any_size(self) -> None:
        names: dict[str, Any] = {}
        exec(compile(documented("python")[-1], str(DOCUMENT), "exec"), names)
        sockets = [UdpSocket(reactor, "127.0.0.1", 0) for _ in range(2)]
        for each in sockets:
            each.start()
            self.addCleanup(each.stop)
        here, there = sockets
        client, server = (
            End(reactor, names["make_layers"](incarnation), self.changed) for incarnation in (1, 2)
        )
        names["listen"](there, lambda _, channel: server.driver.attach(channel))
        names["connect"](
            *(here, here.users.open_port("radar")),
            lambda _, channel: client.driver.attach(channel),
            *there.bound_address,
        )
        client.driver.send([b"small", bytes(50_000)])
        await self.until(lambda: len(server.messages) == 2)
        server.driver.send([b"answer"])
        await self.until(lambda: bool(client.messages))
        assert server.messages == [b"small", bytes(50_000)]
        assert client.messages == [b"answer"]


class GroupTests(WaitingTestCase):
    async def test_a_datagram_to_the_group_reaches_each_member_but_its_sender(self) -> None:
        number = free_port(socket.SOCK_DGRAM)
        ports: list[DatagramPort] = []
        members: list[dict[Address, RecordingReceiver]] = []
        for _ in range(3):
            group = MulticastSocket(reactor, "239.255.77.3", number, "127.0.0.1", loop=True)
            try:
                group.start()
            except CannotListenError as error:
                raise SkipTest(skipped("loopback-multicast", str(error))) from None
            self.addCleanup(group.stop)
            heard: dict[Address, RecordingReceiver] = {}
            members.append(heard)

            def accept(
                channel: IDatagramChannel,
                address: Address,
                heard: dict[Address, RecordingReceiver] = heard,
            ) -> None:
                heard[address] = RecordingReceiver(channel, self.changed)

            ports.append(group.users.open_port("radar", accept))
        ports[0].send_to_group([b"one", b"two"])
        await self.until(lambda: all(len(_packets(each)) == 2 for each in members[1:]))
        assert members[0] == {}
        ((sender, receiver),) = members[1].items()
        assert sender in members[2]
        receiver.channel.send([b"answer"])
        await self.until(lambda: bool(members[0]))
        await self.until(lambda: _packets(members[0]) == [b"answer"])
        assert len(members[2]) == 1


def _packets(heard: dict[Address, RecordingReceiver]) -> list[bytes]:
    return [packet for receiver in heard.values() for packet in receiver.packets]
