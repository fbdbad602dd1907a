"""Sockets for the links of transports, on a reactor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import attrs
from twisted.internet.defer import Deferred, fail
from twisted.internet.error import CannotListenError
from twisted.names import client, dns

from broker.cluster.descriptor import Endpoint
from broker.cluster.dialler import TwistedDialler, build_dialler
from broker.cluster.discovery.dns_seeds import HostSeeds
from broker.cluster.node_certificate import NodeCertificate
from broker.config import Settings
from broker.errors import ConfigurationError
from broker.streams.connection_port import IConnectionSocket, OpenConnections, OpenGroup
from broker.streams.datagram_links import IDatagramSocket, OpenDatagrams
from broker.transport.arq.udp_port import UdpPort
from broker.transport.socket.contract import ISocketChannel
from broker.transport.socket.group_channel import GroupChannel
from broker.transport.socket.udp import UdpSocket, resolve_address
from broker.transport.stacks import GroupAddress, Transport


def _refuse_group(group: GroupAddress) -> ISocketChannel:
    raise ConfigurationError(f"the group {group.host}: there is no IP multicast")


#: Returns the addresses of a name in DNS, each with a port.
FindAddresses = Callable[[str, int], Deferred[Sequence[tuple[str, int]]]]


def _refuse_name(name: str, port: int) -> Deferred[Sequence[tuple[str, int]]]:
    return fail(ConfigurationError(f"{name}: there is no DNS"))


@attrs.frozen
class LinkSockets:
    """Functions that open sockets, each at a host and port."""

    open_datagrams: OpenDatagrams
    open_connections: OpenConnections
    open_group: OpenGroup = _refuse_group
    find_addresses: FindAddresses = _refuse_name


def open_on_reactor(
    reactor: Any, settings: Settings, certificate: NodeCertificate | None = None
) -> LinkSockets:
    """`certificate` is that of `settings`; it is loaded for each port if it is not given."""

    def open_datagrams(host: str, port: int) -> IDatagramSocket:
        socket = UdpSocket(reactor, host, port)
        socket.start()
        return socket

    def open_connections(
        host: str, port: int, transport: Transport, on_connect: Callable[[ISocketChannel], None]
    ) -> IConnectionSocket:
        """Raises also `ConfigurationError` for unusable certificates."""
        dialler = build_dialler(settings, reactor, host, certificate)
        if transport is Transport.UDP:
            udp = UdpPort(reactor, host, port, on_connect, secret=dialler.udp_secret)
            return UdpConnections(udp, dialler)
        return TcpConnections(reactor, host, port, on_connect, dialler)

    def open_group(group: GroupAddress) -> ISocketChannel:
        try:
            return GroupChannel(reactor, *group)
        except CannotListenError as error:
            raise ConfigurationError(f"the group {group.host}: {error.socketError}") from None

    def find_addresses(name: str, port: int) -> Deferred[Sequence[tuple[str, int]]]:
        # Each query opens a socket; a log line for each would flood the log.
        dns.DNSDatagramProtocol.noisy = False
        found = HostSeeds(client.getResolver(), name, port).find_seeds()
        return found.addCallback(list[tuple[str, int]])

    return LinkSockets(open_datagrams, open_connections, open_group, find_addresses)


class TcpConnections:
    """See `IConnectionSocket`. Own connections come from the host at which it listens."""

    def __init__(
        self,
        reactor: Any,
        host: str,
        port: int,
        on_connect: Callable[[ISocketChannel], None],
        dialler: TwistedDialler,
    ) -> None:
        self._dialler = dialler
        try:
            self._family, _ = resolve_address(host, port)
        except OSError as error:
            raise CannotListenError(host, port, error) from None
        factory = dialler.accepting_factory(on_connect)
        self._port = reactor.listenTCP(port, factory, interface=host)
        bound = self._port.getHost()
        # The port has none when the reactor has stopped, and links may still be made anew.
        self.address: tuple[str, int] = bound.host, bound.port

    def resolve(self, host: str, port: int) -> tuple[str, int]:
        family, address = resolve_address(host, port)
        if family != self._family:
            raise OSError(f"{host} is not of the family of {self.address[0]}")
        return address[0], address[1]

    def resolve_name(self, host: str) -> Deferred[str]:
        return self._dialler.resolve(host, self._family)

    def dial(self, endpoint: Endpoint) -> Deferred[ISocketChannel]:
        return self._dialler.dial(endpoint, Transport.TCP.value)

    def stop(self) -> None:
        self._port.stopListening()


class UdpConnections:
    """See `IConnectionSocket`: connections over datagrams."""

    def __init__(self, port: UdpPort, dialler: TwistedDialler) -> None:
        self._port = dialler.udp = port
        self._dialler = dialler
        port.start()
        self.address = port.bound_address

    def resolve(self, host: str, port: int) -> tuple[str, int]:
        address = cast(tuple[str, int], self._port.udp.resolve(host, port))
        return address[0], address[1]

    def resolve_name(self, host: str) -> Deferred[str]:
        return self._dialler.resolve(host, self._port.family)

    def dial(self, endpoint: Endpoint) -> Deferred[ISocketChannel]:
        return self._dialler.dial(endpoint, Transport.UDP.value)

    def stop(self) -> None:
        self._port.stop()
