"""The socket channel over TCP, TLS and UNIX sockets with Twisted, and over asyncio."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from unittest import IsolatedAsyncioTestCase

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from twisted.internet import reactor as the_reactor
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import (
    SSL4ClientEndpoint,
    SSL4ServerEndpoint,
    TCP4ClientEndpoint,
    clientFromString,
    serverFromString,
)
from twisted.internet.interfaces import IListeningPort
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.ssl import CertificateOptions, PrivateCertificate
from zope.interface import implementer

from broker.errors import BrokerError, Closed, FrameTooLarge, ProtocolError
from broker.testing.socket_contract import RecordingReceiver, SocketChannelContract
from broker.transport.driver import IStackReceiver, Link, StackDriver
from broker.transport.p2p import P2PLayer
from broker.transport.socket import ISocketChannel
from broker.transport.socket.asyncio_tcp import AsyncioClock, AsyncioSocketChannel
from broker.transport.socket.framing import encode_frames
from broker.transport.socket.tcp import TcpChannelFactory, TcpSocketChannel
from broker.transport.view import LinkState, View
from tests.system.waiting_test_case import WaitingTestCase

reactor = cast(Any, the_reactor)


def port_number(port: IListeningPort) -> int:
    return int(cast(Any, port.getHost()).port)


class TcpChannelTests(WaitingTestCase, SocketChannelContract):
    server = "tcp:0:interface=127.0.0.1"

    def client(self, port: IListeningPort) -> str:
        return f"tcp:127.0.0.1:{port_number(port)}"

    def server_endpoint(self) -> Any:
        return serverFromString(reactor, self.server)

    def client_endpoint(self, port: IListeningPort) -> Any:
        return clientFromString(reactor, self.client(port))

    async def make_pair(self) -> tuple[ISocketChannel, ISocketChannel]:
        accepted: Deferred[ISocketChannel] = Deferred()
        port = await self.server_endpoint().listen(
            TcpChannelFactory(accepted.callback, self.max_frame)
        )
        self.addCleanup(port.stopListening)
        made: list[ISocketChannel] = []
        client = await self.client_endpoint(port).connect(
            TcpChannelFactory(made.append, self.max_frame)
        )
        assert made == [client]
        server = await accepted
        for channel in (client, server):
            self.addCleanup(self.finish, channel)
        return client, server

    async def finish(self, channel: ISocketChannel) -> None:
        receiver = RecordingReceiver(channel, self.changed)
        if not cast(TcpSocketChannel, channel)._is_lost:
            channel.abort(Closed("the test is over"))
            await self.until(lambda: bool(receiver.losses))


class UnixChannelTests(TcpChannelTests):
    def setUp(self) -> None:
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.server = f"unix:{folder.name}/socket"

    def client(self, port: IListeningPort) -> str:
        return self.server


def self_signed() -> PrivateCertificate:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = x509.CertificateBuilder(
        issuer_name=name,
        subject_name=name,
        public_key=key.public_key(),
        serial_number=1,
        not_valid_before=now - timedelta(days=1),
        not_valid_after=now + timedelta(days=1),
    ).sign(key, hashes.SHA256())
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public = certificate.public_bytes(serialization.Encoding.PEM)
    return cast(PrivateCertificate, PrivateCertificate.loadPEM(public + private))


# Twisted 26.10 uses an API that pyOpenSSL 26 deprecates.
@pytest.mark.filterwarnings("ignore:Passing pyOpenSSL:DeprecationWarning")
class TlsChannelTests(TcpChannelTests):
    certificate: PrivateCertificate

    @classmethod
    def setUpClass(cls) -> None:
        cls.certificate = self_signed()

    def server_endpoint(self) -> Any:
        return SSL4ServerEndpoint(reactor, 0, self.certificate.options(), interface="127.0.0.1")

    def client_endpoint(self, port: IListeningPort) -> Any:
        # The server's identity is not part of the contract.
        options = CertificateOptions(verify=False)
        return SSL4ClientEndpoint(reactor, "127.0.0.1", port_number(port), options)

    async def test_tls_channel_is_secure(self) -> None:
        here, there = await self.make_pair()
        assert here.secure
        assert there.secure

    async def test_socket_below_tls_is_configured(self) -> None:
        for channel in await self.make_pair():
            handle = cast(Any, channel).transport.transport.getHandle()
            assert handle.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


class RawClient(Protocol):
    transport: Any

    def __init__(self) -> None:
        self.lost: Deferred[None] = Deferred()

    def connectionLost(self, reason: object = None) -> None:
        self.lost.callback(None)


class RawPeerTests(WaitingTestCase):
    async def connect(self) -> tuple[RawClient, RecordingReceiver]:
        accepted: Deferred[ISocketChannel] = Deferred()
        endpoint = serverFromString(reactor, "tcp:0:interface=127.0.0.1")
        port = await endpoint.listen(TcpChannelFactory(accepted.callback))
        self.addCleanup(port.stopListening)
        endpoint = TCP4ClientEndpoint(reactor, "127.0.0.1", port_number(port))
        raw = cast(RawClient, await endpoint.connect(Factory.forProtocol(RawClient)))
        return raw, RecordingReceiver(await accepted, self.changed)

    async def test_garbage_before_a_handshake_ends_the_connection(self) -> None:
        raw, server = await self.connect()
        raw.transport.write(b"GET / HTTP/1.1\r\n\r\n")
        await raw.lost
        await self.until(lambda: bool(server.losses))
        assert isinstance(server.losses[0], FrameTooLarge)
        assert server.packets == []

    async def test_end_within_a_frame_is_an_error(self) -> None:
        raw, server = await self.connect()
        raw.transport.write(
            b"".join(encode_frames([b"whole"]) + encode_frames([b"half of it"]))[:-3]
        )
        raw.transport.loseConnection()
        await self.until(lambda: bool(server.losses))
        assert isinstance(server.losses[0], ProtocolError)
        assert server.packets == [b"whole"]
        await raw.lost

    async def test_socket_has_no_delay_and_keepalive(self) -> None:
        raw, server = await self.connect()
        handle = cast(Any, server.channel).transport.getHandle()
        assert handle.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert handle.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        host = raw.transport.getHost()
        assert server.channel.peer_description == f"127.0.0.1:{host.port}"
        assert not server.channel.secure
        server.channel.close()
        await raw.lost
        await self.until(lambda: bool(server.losses))


class AsyncioChannelTests(SocketChannelContract, IsolatedAsyncioTestCase):
    def changed(self) -> None:
        self.event.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not condition():
                self.event.clear()
                await self.event.wait()

    async def make_pair(self) -> tuple[ISocketChannel, ISocketChannel]:
        self.event = asyncio.Event()
        loop = asyncio.get_running_loop()
        accepted: asyncio.Future[ISocketChannel] = loop.create_future()
        server = await loop.create_server(
            lambda: AsyncioSocketChannel(accepted.set_result, self.max_frame), "127.0.0.1", 0
        )
        self.addCleanup(server.close)
        port = server.sockets[0].getsockname()[1]
        _, client = await loop.create_connection(
            lambda: AsyncioSocketChannel(lambda channel: None, self.max_frame), "127.0.0.1", port
        )
        pair = (client, await accepted)
        for channel in pair:
            self.addCleanup(channel.abort, Closed("the test is over"))
        return pair

    async def test_socket_has_no_delay_and_keepalive(self) -> None:
        here, _ = await self.make_pair()
        handle = cast(Any, here)._transport.get_extra_info("socket")
        assert handle.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert handle.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert here.peer_description.startswith("127.0.0.1:")


@implementer(IStackReceiver)
class Echo:
    """Messages are collected, and sent back if `echoes`."""

    def __init__(self, changed: Callable[[], None], echoes: bool) -> None:
        self.driver: Link | None = None
        self.changed = changed
        self.echoes = echoes
        self.messages: list[bytes] = []
        self.views: list[View] = []

    def is_disconnected(self) -> bool:
        return self.views[-1].state is LinkState.DISCONNECTED

    def messages_received(self, peer: object, messages: Sequence[bytes]) -> None:
        assert self.driver is not None
        self.messages += messages
        if self.echoes:
            self.driver.send(messages)
        self.driver.consumed(len(messages))
        self.changed()

    def view_changed(self, peer: object, view: View) -> None:
        self.views.append(view)
        self.changed()

    def writable_changed(self, peer: object, writable: bool) -> None:
        self.changed()


class StackOverTcpTests(WaitingTestCase):
    def new_end(self, incarnation: int, echoes: bool) -> Echo:
        end = Echo(self.changed, echoes)
        end.driver = StackDriver([P2PLayer(incarnation=incarnation)], reactor, end).join("peer")
        return end

    async def test_echo_survives_broken_connections(self) -> None:
        client, server = self.new_end(1, False), self.new_end(2, True)
        there, here = server.driver, client.driver
        assert there is not None
        assert here is not None
        endpoint = serverFromString(reactor, "tcp:0:interface=127.0.0.1")
        port = await endpoint.listen(TcpChannelFactory(there.attach))
        self.addCleanup(port.stopListening)
        sent: list[bytes] = []
        for turn in range(5):
            address = f"tcp:127.0.0.1:{port_number(port)}"
            await clientFromString(reactor, address).connect(TcpChannelFactory(here.attach))
            for number in range(100):
                batch = [b"%d %d %d" % (turn, number, place) for place in range(20)]
                batch.append(bytes(1000 * turn) + b"%d" % number)
                here.send(batch)
                sent += batch
            half = len(sent) // 2
            await self.until(lambda half=half: len(client.messages) > half)  # type: ignore[misc]
            if turn < 4:
                here.abort(Closed("broken on purpose"))
        await self.until(lambda: len(client.messages) == len(sent))
        assert server.messages == sent
        assert client.messages == sent
        here.close()
        for end in (client, server):
            await self.until(end.is_disconnected)


class AsyncioStackTests(IsolatedAsyncioTestCase):
    async def test_a_stack_runs_on_asyncio(self) -> None:
        loop = asyncio.get_running_loop()
        event = asyncio.Event()
        ends = [Echo(event.set, False), Echo(event.set, True)]
        for incarnation, end in enumerate(ends, 1):
            layer = P2PLayer(incarnation=incarnation, ack_delay=0.001)
            end.driver = StackDriver([layer], AsyncioClock(loop), end).join("peer")
        client, server = (cast(Link, end.driver) for end in ends)
        listening = await loop.create_server(
            lambda: AsyncioSocketChannel(server.attach), "127.0.0.1", 0
        )
        port = listening.sockets[0].getsockname()[1]
        await loop.create_connection(lambda: AsyncioSocketChannel(client.attach), "127.0.0.1", port)
        client.send([b"a", b"b"])
        async with asyncio.timeout(30):
            while ends[0].messages != [b"a", b"b"]:
                event.clear()
                await event.wait()
        client.close()
        async with asyncio.timeout(30):
            while not all(end.is_disconnected() for end in ends):
                event.clear()
                await event.wait()
        listening.close()

    async def test_calls_can_be_cancelled(self) -> None:
        clock = AsyncioClock(asyncio.get_running_loop())
        made: list[BrokerError | str] = []
        done = asyncio.Event()
        cancelled = clock.callLater(0.0, made.append, "cancelled")
        call = clock.callLater(0.0, made.append, "made")
        clock.callLater(0.001, done.set)
        cancelled.cancel()
        assert (cancelled.active(), call.active()) == (False, True)
        await done.wait()
        assert made == ["made"]
        assert not call.active()
        call.cancel()
        assert clock.seconds() <= clock.seconds()
