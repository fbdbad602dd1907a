"""Listening ports of a node's network: links over TCP and UDP, multicast, and discovery."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from random import Random
from typing import Any

from twisted.internet.endpoints import serverFromString
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IListeningPort
from twisted.names import client, dns

from broker.cluster.descriptor import Endpoint, MulticastGroup, NodeDescriptor
from broker.cluster.dialler import TwistedDialler
from broker.cluster.discovery.discovery_port import DiscoveryPort
from broker.cluster.discovery.dns_seeds import HostSeeds, SrvSeeds
from broker.cluster.discovery.seed_poller import SeedPoller
from broker.cluster.discovery.seed_source import ISeedSource
from broker.cluster.network import Network
from broker.config.endpoints import is_multicast_address
from broker.config.network import NetworkSettings
from broker.config.value_kind import split_host_port
from broker.errors import ConfigurationError
from broker.transport.arq.multicast_port import MulticastPort
from broker.transport.arq.udp_port import UdpPort


class NetworkListener:
    """Ports for links over TCP and UDP, multicast, and discovery."""

    def __init__(
        self, settings: NetworkSettings, network: Network, dialler: TwistedDialler, reactor: Any
    ) -> None:
        self._settings = settings
        self._network = network
        self._dialler = dialler
        self._reactor = reactor
        self._udp: UdpPort | None = None
        self._group: MulticastPort | None = None
        self._discovery: DiscoveryPort | None = None
        self._seed_poller: SeedPoller | None = None

    async def start(self) -> list[IListeningPort]:
        """Raises `ConfigurationError` with the setting's name."""
        settings, membership = self._settings, self._network.membership
        factory = self._dialler.accepting_factory(
            lambda channel: membership.accept_connection(channel, "tcp")
        )
        ports = []
        for text in settings.listen:
            with _name_setting(f'network.listen "{text}"'):
                ports.append(await serverFromString(self._reactor, text).listen(factory))
        node = membership.node
        if ports and node.tcp is None:
            host = ports[0].getHost()
            if hasattr(host, "port"):
                _check_host(host.host, "network.listen", "or set network.advertise")
                node = node._replace(tcp=Endpoint(host.host, host.port))
        if settings.udp:
            udp = self._udp = self._dialler.udp = UdpPort(
                self._reactor,
                *split_host_port(settings.udp),
                lambda channel: membership.accept_connection(channel, "udp"),
                secret=self._dialler.udp_secret,
            )
            with _name_setting(f"network.udp {settings.udp}"):
                udp.start()
            self._network.neighbours.udp_counts = udp.endpoint.counts
            _check_host(udp.bound_address[0], "network.udp", "or use TCP")
            node = node._replace(udp=Endpoint(*udp.bound_address))
        if settings.group:
            group, port = split_host_port(settings.group)
            # Members on the same host receive each other's packets.
            self._group = MulticastPort(
                self._reactor,
                group,
                port,
                settings.group_interface,
                node.name,
                self._network.group,
                secret=self._key or b"",
                loop=True,
            )
            where = f"network.group_interface {settings.group_interface}"
            with _name_setting(f"network.group {settings.group}, {where}"):
                self._group.start()
            self._network.group.set_transport(self._group)
            node = node._replace(multicast=MulticastGroup(group, port, settings.group_interface))
        membership.node = node
        if settings.discover:
            self._seed_poller = SeedPoller(self._seed_source(), self._reactor, membership.set_seeds)
            self._seed_poller.start()
        return ports

    def _seed_source(self) -> ISeedSource:
        settings = self._settings
        # Each query opens a socket; a log line for each would flood the log.
        dns.DNSDatagramProtocol.noisy = False
        if settings.discover.startswith("_"):
            return SrvSeeds(client.getResolver(), settings.discover, Random())
        host, port = split_host_port(settings.discover)
        if not is_multicast_address(settings.discover):
            return HostSeeds(client.getResolver(), host, port)
        self._discovery = DiscoveryPort(
            *(self._reactor, (host, port), settings.group_interface, settings.name, self._key),
            self._describe_node,
        )
        with _name_setting(
            f"network.discover {settings.discover},"
            f" network.group_interface {settings.group_interface}"
        ):
            self._discovery.start()
        return self._discovery

    def _describe_node(self) -> tuple[NodeDescriptor, bool] | None:
        """Return True if the cluster has room; None without a cluster."""
        state = self._network.state
        if state is None:
            return None
        has_room = len(state.map.members()) < self._settings.max_nodes
        return self._network.membership.node, has_room

    async def stop(self) -> None:
        """The caller stops the ports that `start` returned."""
        if self._seed_poller is not None:
            self._seed_poller.stop()
        if self._discovery is not None:
            self._discovery.stop()
        if self._udp is not None:
            self._udp.stop()
        if self._group is not None:
            self._network.group.set_transport(None)
            self._group.stop()

    @property
    def _key(self) -> bytes | None:
        path = self._settings.key_file
        return None if path is None else path.read_bytes().strip()


@contextmanager
def _name_setting(setting: str) -> Iterator[None]:
    """Convert a failure to listen to a `ConfigurationError`."""
    try:
        yield
    except CannotListenError as error:
        reason = getattr(error.socketError, "strerror", None) or error.socketError
        raise ConfigurationError(f"{setting}: {reason}") from None


def _check_host(host: str, setting: str, remedy: str) -> None:
    """Reject a wildcard address, to which other nodes could not connect."""
    try:
        everywhere = ip_address(host).is_unspecified
    except ValueError:
        return
    if everywhere:
        raise ConfigurationError(
            f"{setting} is on all interfaces, so other nodes get no address to connect to: "
            f"name the address of one interface, {remedy}"
        )
