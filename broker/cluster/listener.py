"""Where a node takes connections of other nodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from random import Random
from typing import Any

from twisted.internet.endpoints import serverFromString
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IListeningPort, IProtocolFactory
from twisted.names import client, dns

from broker.cluster.descriptor import Endpoint, Group
from broker.cluster.dialler import TwistedDialler
from broker.cluster.discovery.seed_poller import Asking
from broker.cluster.discovery.seed_source import ISeedSource
from broker.cluster.discovery.dns_seeds import NameSeeds, ServiceSeeds
from broker.cluster.discovery.discovery_port import GroupPort
from broker.cluster.network import Network
from broker.config.endpoints import is_group_place
from broker.config.kinds import split_place
from broker.config.network import NetworkSettings
from broker.errors import ConfigurationError
from broker.transport.socket.multicast import MulticastPort
from broker.transport.socket.tcp import TcpChannelFactory
from broker.transport.socket.udp import UdpPort


class Listening:
    """The ports of a node's network, and what it tells others of them."""

    def __init__(
        self, settings: NetworkSettings, network: Network, dialler: TwistedDialler, reactor: Any
    ) -> None:
        self._settings = settings
        self._network = network
        self._dialler = dialler
        self._reactor = reactor
        self._udp: UdpPort | None = None
        self._group: MulticastPort | None = None
        self._discovery: GroupPort | None = None
        self._asking: Asking | None = None

    async def start(self) -> list[IListeningPort]:
        """Listen; from now on the node has its place.

        Raises `ConfigurationError`, with the setting's name, for what can not be listened on.
        """
        said, membership = self._settings, self._network.membership
        certificates = self._dialler.certificates
        factory: IProtocolFactory = TcpChannelFactory(
            lambda channel: membership.connected(channel, "tcp"),
            certified=certificates is not None,
        )
        if certificates is not None:
            factory = certificates.over_tls(factory, dials=False)
        ports = []
        for text in said.listen:
            with _naming(f'network.listen "{text}"'):
                ports.append(await serverFromString(self._reactor, text).listen(factory))
        node = membership.node
        if ports and node.tcp is None:
            host = ports[0].getHost()
            if hasattr(host, "port"):
                _check_place(host.host, "network.listen", "or say network.advertise")
                node = node._replace(tcp=Endpoint(host.host, host.port))
        if said.udp:
            udp = self._udp = self._dialler.udp = UdpPort(
                self._reactor,
                *split_place(said.udp),
                lambda channel: membership.connected(channel, "udp"),
            )
            with _naming(f"network.udp {said.udp}"):
                udp.start()
            _check_place(udp.host[0], "network.udp", "or use TCP")
            node = node._replace(udp=Endpoint(*udp.host))
        if said.group:
            group, port = split_place(said.group)
            # Members on one host must hear each other.
            self._group = MulticastPort(
                self._reactor,
                group,
                port,
                said.group_interface,
                node.name,
                self._network.group,
                secret=self._key or b"",
                loop=True,
            )
            where = f"network.group_interface {said.group_interface}"
            with _naming(f"network.group {said.group}, {where}"):
                self._group.start()
            self._network.group.use(self._group)
            node = node._replace(multicast=Group(group, port, said.group_interface))
        membership.node = node
        if said.discover:
            self._asking = Asking(self._seeds(), self._reactor, membership.found_seeds)
            self._asking.start()
        return ports

    def _seeds(self) -> ISeedSource:
        """What the setting `discover` names."""
        said = self._settings
        # Each question has a socket of its own, and a line for each would fill the node's log.
        dns.DNSDatagramProtocol.noisy = False
        if said.discover.startswith("_"):
            return ServiceSeeds(client.getResolver(), said.discover, Random())
        host, port = split_place(said.discover)
        if not is_group_place(said.discover):
            return NameSeeds(client.getResolver(), host, port)
        self._discovery = GroupPort(
            *(self._reactor, (host, port), said.group_interface, said.name, self._key),
            self._network.presence,
        )
        with _naming(
            f"network.discover {said.discover}, network.group_interface {said.group_interface}"
        ):
            self._discovery.start()
        return self._discovery

    async def stop(self) -> None:
        """Close what is of datagrams; the ports of `start` are the caller's to stop."""
        if self._asking is not None:
            self._asking.stop()
        if self._discovery is not None:
            self._discovery.stop()
        if self._udp is not None:
            self._udp.stop()
        if self._group is not None:
            self._network.group.use(None)
            self._group.stop()

    @property
    def _key(self) -> bytes | None:
        path = self._settings.key_file
        return None if path is None else path.read_bytes().strip()


@contextmanager
def _naming(setting: str) -> Iterator[None]:
    """What can not be listened on is told with the setting that asks for it."""
    try:
        yield
    except CannotListenError as error:
        reason = getattr(error.socketError, "strerror", None) or error.socketError
        raise ConfigurationError(f"{setting}: {reason}") from None


def _check_place(host: str, setting: str, remedy: str) -> None:
    """Others are told where they find this node: that it listens everywhere is no answer."""
    try:
        everywhere = ip_address(host).is_unspecified
    except ValueError:
        return
    if everywhere:
        raise ConfigurationError(
            f"{setting} is on all interfaces, so others would not know where this node is: "
            f"name the address of one, {remedy}"
        )
