from __future__ import annotations

import struct
from ipaddress import ip_address, ip_network

import pytest
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from broker.errors import BrokerError, Overloaded, PeerSilent, ProtocolError
from broker.transport.socket import proxy_header
from broker.transport.socket.proxy_header import MAX_HEADER, SIGNATURE, ProxyHeaderFactory

PROXY = IPv4Address("TCP", "10.0.0.9", 40000)
TIMEOUT = 5.0


def header(
    source: str = "192.0.2.7", port: int = 50000, command: int = 0x21, extra: bytes = b""
) -> bytes:
    address = ip_address(source)
    family = 0x11 if address.version == 4 else 0x21
    fields = address.packed * 2 + struct.pack(">HH", port, 8765) + extra
    return SIGNATURE + struct.pack(">BBH", command, family, len(fields)) + fields


class Recorder(Protocol):
    def __init__(self, addr: IAddress) -> None:
        self.addr = addr
        self.received = b""

    def dataReceived(self, data: bytes) -> None:
        self.received += data


class Recorders(Factory):
    def __init__(self) -> None:
        self.built: list[Recorder] = []

    def buildProtocol(self, addr: IAddress | None) -> Recorder:
        assert addr is not None
        self.built.append(Recorder(addr))
        return self.built[-1]


class FakeTransport(StringTransport):
    """Passes data to its present protocol, as a socket does."""

    protocol: Protocol
    aborted = False

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.reactor = clock

    def abortConnection(self) -> None:
        self.aborted = True

    def receive(self, data: bytes) -> None:
        self.protocol.dataReceived(data)


class Port:
    def __init__(self) -> None:
        self.clock = Clock()
        self.recorders = Recorders()
        self.refused: list[tuple[str, BrokerError]] = []
        networks = [ip_network("10.0.0.0/8"), ip_network("2001:db8::/32")]
        self.factory = ProxyHeaderFactory(
            *(self.recorders, networks, TIMEOUT),
            lambda address, error: self.refused.append((address, error)),
        )

    def accept(self, addr: IAddress = PROXY) -> FakeTransport:
        transport = FakeTransport(self.clock)
        protocol = self.factory.buildProtocol(addr)
        assert isinstance(protocol, Protocol)
        transport.protocol = protocol
        protocol.makeConnection(transport)
        return transport


@pytest.mark.parametrize("size", [1, 5, 17, 1000])
@pytest.mark.parametrize(
    ("source", "kind"), [("192.0.2.7", IPv4Address), ("2001:db8:1::7", IPv6Address)]
)
def test_address_of_the_header_is_the_peers(size: int, source: str, kind: type) -> None:
    port = Port()
    transport = port.accept()
    data = header(source, extra=b"\x04\x00\x03abc") + b"the rest"
    for start in range(0, len(data), size):
        transport.receive(data[start : start + size])
    (built,) = port.recorders.built
    assert built.addr == kind("TCP", source, 50000)
    assert built.received == b"the rest"
    assert transport.protocol is built
    assert not port.clock.getDelayedCalls()
    assert not port.refused


@pytest.mark.parametrize(
    "data",
    [
        header(command=0x20),
        SIGNATURE + struct.pack(">BBH", 0x20, 0x00, 0),
        SIGNATURE + struct.pack(">BBH", 0x21, 0x00, 0),
        SIGNATURE + struct.pack(">BBH", 0x21, 0x31, 216) + bytes(216),
    ],
    ids=["local", "empty", "unknown", "unix"],
)
def test_header_without_a_clients_address_leaves_the_proxys(data: bytes) -> None:
    port = Port()
    port.accept().receive(data + b"x")
    (built,) = port.recorders.built
    assert (built.addr, built.received) == (PROXY, b"x")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"PROXY TCP4 192.0.2.7 192.0.2.8 1 2\r\n", "version 1"),
        (b"PRO", "version 1"),
        (b"\x00\x00\x00\x10hello", "there is none"),
        (b"\x16\x03\x01", "there is none"),
        (SIGNATURE[:-1] + b"x", "there is none"),
        (header(command=0x22), "unknown command"),
        (header(command=0x11), "unknown command"),
        (SIGNATURE + struct.pack(">BBH", 0x21, 0x12, 12) + bytes(12), "kind of address"),
        (SIGNATURE + struct.pack(">BBH", 0x21, 0x11, 11) + bytes(11), "too short"),
        (SIGNATURE + struct.pack(">BBH", 0x21, 0x21, 12) + bytes(12), "too short"),
        (SIGNATURE + struct.pack(">BBH", 0x21, 0x11, MAX_HEADER), "bytes"),
    ],
)
def test_anything_else_of_a_proxy_is_refused(data: bytes, reason: str) -> None:
    port = Port()
    transport = port.accept()
    transport.receive(data)
    ((address, error),) = port.refused
    assert address == "10.0.0.9:40000"
    assert isinstance(error, ProtocolError) and reason in str(error)
    assert transport.aborted
    assert not port.recorders.built
    assert not port.clock.getDelayedCalls()


@pytest.mark.parametrize(
    "addr",
    [
        IPv4Address("TCP", "192.0.2.9", 1),
        IPv6Address("TCP", "2001:db9::1", 1),
        UNIXAddress("/run/proxy"),
    ],
)
def test_others_have_no_header(addr: IAddress) -> None:
    port = Port()
    port.accept(addr).receive(header())
    (built,) = port.recorders.built
    assert (built.addr, built.received) == (addr, header())


@pytest.mark.parametrize(
    "addr", [IPv6Address("TCP", "::ffff:10.1.2.3", 1), IPv6Address("TCP", "2001:db8::9", 1)]
)
def test_proxies_may_have_ipv6_addresses(addr: IAddress) -> None:
    port = Port()
    port.accept(addr)
    assert not port.recorders.built


def test_late_and_too_many_headers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_header, "MAX_WAITING", 2)
    port = Port()
    transports = [port.accept() for _ in range(3)]
    assert [each.aborted for each in transports] == [True, False, False]
    assert isinstance(port.refused[0][1], Overloaded)
    transports[1].receive(SIGNATURE)
    port.clock.advance(TIMEOUT)
    assert all(each.aborted for each in transports)
    assert [type(error) for _, error in port.refused[1:]] == [PeerSilent, PeerSilent]
    assert not port.factory.waiting
