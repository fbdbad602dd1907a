"""Links of stream transports: each over its link stack, on datagrams or connections."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

import attrs
from twisted.internet.error import CannotListenError

from broker.cluster.link_stacks import LinkStacks, max_frame
from broker.config import Settings
from broker.config.stacks import FindPlugins, StackInstance, select_channel
from broker.config.value_kind import split_host_port
from broker.errors import ConfigurationError
from broker.event.envelope import CLEARTEXT_LEVEL
from broker.queue_memory import QueueMemory
from broker.streams.connection_links import ConnectionLinks
from broker.streams.connection_port import ConnectionPort, NodeIdentity
from broker.streams.contract import ILinkReceiver, ILinks
from broker.streams.datagram_links import PORT_SETTINGS, DatagramLinks, IDatagramSocket
from broker.streams.group_contract import IGroup, OnGroupDatagrams
from broker.streams.group_link import GroupLink
from broker.streams.link_sockets import LinkSockets
from broker.transport.arq.mac import Mac, derive_layer_key
from broker.transport.arq.mac_layer import MacLayer
from broker.transport.clock import IClock
from broker.transport.faults import create_layers
from broker.transport.socket.contract import DATAGRAM_PROPERTIES, ISocketChannel
from broker.transport.socket.datagram_port import DatagramPortSettings
from broker.transport.socket.loopback import LOOPBACK_INTERFACES, is_loopback_address
from broker.transport.stack import Stack
from broker.transport.stacks import (
    GroupAddress,
    IFanOutStack,
    IProtocolStack,
    IStackPlugin,
    StackSettings,
    Transport,
    build_stack,
)

#: Forged addresses can not keep clients from the places of strangers. A handshake goes on over a
#: new channel, and later the link is no stranger's.
_OF_CLIENTS: Final = attrs.evolve(PORT_SETTINGS, stranger_silence=0.0)


class LinkOpener:
    """Opens the links of a node's transports. Transports with one address share its socket."""

    def __init__(
        self,
        settings: Settings,
        identity: NodeIdentity,
        clock: IClock,
        wall_clock: Callable[[], int],
        random: Random,
        sockets: LinkSockets,
        find_plugins: FindPlugins,
        memory: QueueMemory,
    ) -> None:
        """`wall_clock` gives ms since 1970; send buffers count in `memory`."""
        self._settings = settings
        self._identity = identity
        self._clock = clock
        self._wall_clock = wall_clock
        self._random = random
        self._open = sockets
        self.find_addresses = sockets.find_addresses
        self._find_plugins = find_plugins
        self._memory = memory
        self._sockets: dict[str, tuple[IDatagramSocket, list[DatagramLinks]]] = {}
        self._ports: dict[tuple[str, Transport], ConnectionPort] = {}

    def open(self, instance: StackInstance, listen: str, receiver: ILinkReceiver) -> ILinks:
        """Raises `ConfigurationError`."""
        transport, plugin = self._find_plugins(instance)
        assert plugin is not None
        name = name_links(instance.name, transport, plugin)
        if IFanOutStack.providedBy(plugin):
            name = f"{name} {plugin.fan_out_of(instance.link_options)}".rstrip()
        channel = select_channel(instance, plugin)
        self._check_reach(listen, channel)
        is_encrypted = channel is Transport.TCP and self._settings.network.certificate is not None
        is_local = is_encrypted or is_loopback_address(listen)
        self._check_clearance(instance, listen, is_local=is_local)
        try:
            if channel is Transport.DATAGRAM:
                key = self._identity.key
                settings = PORT_SETTINGS if key is None else _settings_of_members(key)
                return self._open_datagrams(name, instance, listen, receiver, key, settings)
            return self._open_connections(name, instance, plugin, listen, channel, receiver)
        except CannotListenError as error:
            reason = getattr(error.socketError, "strerror", None) or error.socketError
            raise ConfigurationError(f"{listen}: {reason}") from None

    def open_group(
        self, instance: StackInstance, address: GroupAddress, on_datagrams: OnGroupDatagrams
    ) -> IGroup:
        """See `IGroupContext`."""
        self._check_group_clearance(instance, address)
        self._check_reach(f"{address.interface}:{address.port}", Transport.DATAGRAM)
        return GroupLink(address, self._identity.key, self._open.open_group, on_datagrams)

    def _check_reach(self, listen: str, channel: Transport) -> None:
        network = self._settings.network
        is_certified = channel is Transport.TCP and network.certificate is not None
        if network.key_file is None and not is_certified and not is_loopback_address(listen):
            raise ConfigurationError(
                f"{listen} can be reached by others: without network.key_file it must be an "
                "address of the loopback interface"
            )

    def _check_clearance(self, instance: StackInstance, place: str, *, is_local: bool) -> None:
        """Raise `ConfigurationError` for links that would carry too high events in clear text."""
        if instance.clearance > CLEARTEXT_LEVEL and not is_local:
            raise ConfigurationError(
                f"stacks.{instance.name}.clearance is {instance.clearance.value!r}, but events "
                f"would leave {place} without encryption, which takes at most "
                f"{CLEARTEXT_LEVEL.value!r}"
            )

    def _check_group_clearance(self, instance: StackInstance, group: GroupAddress) -> None:
        is_local = group.interface in LOOPBACK_INTERFACES
        self._check_clearance(instance, f"{group.host}:{group.port}", is_local=is_local)

    def _open_link_group(self, instance: StackInstance, group: GroupAddress) -> ISocketChannel:
        self._check_group_clearance(instance, group)
        return self._open.open_group(group)

    def open_to_clients(
        self, instance: StackInstance, listen: str, receiver: ILinkReceiver
    ) -> ILinks:
        """Open links over datagrams for clients, who do not know the key of the network.

        Raises `ConfigurationError`.
        """
        self._check_clearance(instance, listen, is_local=is_loopback_address(listen))
        transport, plugin = self._find_plugins(instance)
        assert plugin is not None
        name = name_client_links(instance.name, transport, plugin)
        try:
            return self._open_datagrams(name, instance, listen, receiver, None, _OF_CLIENTS)
        except CannotListenError as error:
            raise ConfigurationError(f"{listen}: {error.socketError}") from None

    # ------------------------------------------------------------------ datagrams

    def _open_datagrams(
        self,
        name: str,
        instance: StackInstance,
        listen: str,
        receiver: ILinkReceiver,
        key: bytes | None,
        settings: DatagramPortSettings,
    ) -> ILinks:
        if listen not in self._sockets:
            self._sockets[listen] = self._open.open_datagrams(*split_host_port(listen)), []
        socket, users = self._sockets[listen]
        links = DatagramLinks(
            name,
            socket,
            receiver,
            self._clock,
            lambda peer: self._build_datagram_stack(instance, peer, key),
            lambda links: self._close_datagrams(listen, links),
            settings,
        )
        users.append(links)
        return links

    def _build_datagram_stack(self, instance: StackInstance, peer: str, key: bytes | None) -> Stack:
        plugin = self._find_plugins(instance)[1]
        assert plugin is not None
        below = [] if key is None else [MacLayer(secret=key)]
        settings = StackSettings(
            # It rises, so that a layer can tell old packets.
            incarnation=self._wall_clock() << 16 | int.from_bytes(os.urandom(2), "big"),
            transport=Transport.DATAGRAM,
            suspect=self._settings.network.suspect,
            options=instance.link_options,
        )
        faults = create_layers(self._settings.faults, peer, self._clock.seconds())
        return build_stack(plugin, settings, DATAGRAM_PROPERTIES, [*below, *faults])

    def _close_datagrams(self, listen: str, links: DatagramLinks) -> None:
        socket, users = self._sockets[listen]
        users.remove(links)
        if not users:
            del self._sockets[listen]
            socket.stop()

    # ------------------------------------------------------------------ connections

    def _open_connections(
        self,
        name: str,
        instance: StackInstance,
        plugin: IProtocolStack,
        listen: str,
        channel: Transport,
        receiver: ILinkReceiver,
    ) -> ILinks:
        place = (listen, channel)
        if place not in self._ports:
            address = split_host_port(listen)
            self._ports[place] = ConnectionPort(
                self._identity,
                self._clock,
                self._wall_clock,
                channel,
                partial(self._open.open_connections, *address, channel),
            )
        return ConnectionLinks(
            name,
            self._ports[place],
            channel,
            receiver,
            self._clock,
            self._random,
            LinkStacks(self._settings, instance, plugin, self._clock.seconds(), self._memory),
            max_frame(self._settings),
            partial(self._open_link_group, instance),
            lambda: self._close_connections(place),
        )

    def _close_connections(self, place: tuple[str, Transport]) -> None:
        if not self._ports[place].has_users:
            self._ports.pop(place).stop()


def _settings_of_members(key: bytes) -> DatagramPortSettings:
    """Return settings by which hosts without the key of the network get no channel."""
    mac = Mac(derive_layer_key(key))
    return attrs.evolve(PORT_SETTINGS, is_genuine=lambda each: mac.remove_tag(each) is not None)


def name_links(instance: str, transport: IStackPlugin, links: IStackPlugin) -> str:
    """Return the name by which links are told apart, also from those of other versions."""
    return " ".join((instance, *(f"{each.name} {each.version}" for each in (transport, links))))


def name_client_links(instance: str, transport: IStackPlugin, links: IStackPlugin) -> str:
    """Return the name of an instance's links to clients."""
    return f"{name_links(instance, transport, links)} clients"
