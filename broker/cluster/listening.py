"""Where a node takes connections of other nodes."""

from __future__ import annotations

from ipaddress import ip_address
from random import Random
from typing import Any

from twisted.internet.endpoints import serverFromString
from twisted.internet.interfaces import IListeningPort
from twisted.names import client

from broker.channel.socket.multicast import MulticastPort
from broker.channel.socket.tcp import TcpChannelFactory
from broker.channel.socket.udp import UdpPort
from broker.cluster.descriptor import Endpoint, Group
from broker.cluster.dialling import TwistedDialler
from broker.cluster.discovery.asking import Asking
from broker.cluster.discovery.contract import ISeedSource
from broker.cluster.discovery.domain_names import NameSeeds, ServiceSeeds
from broker.cluster.discovery.group_port import GroupPort
from broker.cluster.network import Network
from broker.config.kinds import split_place
from broker.config.network import NetworkSettings


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
        """Listen; what can not be listened on raises. From now on the node has its place."""
        said, membership = self._settings, self._network.membership
        factory = TcpChannelFactory(lambda channel: membership.connected(channel, "tcp"))
        ports = []
        for text in said.listen:
            ports.append(await serverFromString(self._reactor, text).listen(factory))
        node = membership.node
        if ports and node.tcp is None:
            host = ports[0].getHost()
            if hasattr(host, "port"):
                node = node._replace(tcp=Endpoint(host.host, host.port))
        if said.udp:
            udp = self._udp = self._dialler.udp = UdpPort(
                self._reactor,
                *split_place(said.udp),
                lambda channel: membership.connected(channel, "udp"),
            )
            udp.start()
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
        if said.discover.startswith("_"):
            return ServiceSeeds(client.getResolver(), said.discover, Random())
        host, port = split_place(said.discover)
        if not _is_group(host):
            return NameSeeds(client.getResolver(), host, port)
        self._discovery = GroupPort(
            *(self._reactor, (host, port), said.group_interface, said.name, self._key),
            self._network.presence,
        )
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


def _is_group(host: str) -> bool:
    try:
        return ip_address(host).is_multicast
    except ValueError:
        return False
