"""Links of a stream transport: its link stack over raw datagrams, with a link for each peer."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

from twisted.internet.error import CannotListenError
from zope.interface import implementer

from broker.config import Settings
from broker.config.endpoints import is_loopback_address
from broker.config.key_file import read_key
from broker.config.stacks import FindPlugins, StackInstance
from broker.config.value_kind import split_host_port
from broker.errors import BrokerError, Closed, ConfigurationError, Overloaded
from broker.streams.contract import ILinkReceiver, ILinks
from broker.transport.arq.mac_layer import MacLayer
from broker.transport.clock import IClock
from broker.transport.driver import IStackReceiver, StackDriver
from broker.transport.faults import create_layers
from broker.transport.message import Peer
from broker.transport.socket.contract import DATAGRAM_PROPERTIES, IDatagramChannel
from broker.transport.socket.datagram_demultiplexer import DatagramDemultiplexer
from broker.transport.socket.udp import UdpSocket, format_address
from broker.transport.stack import Stack
from broker.transport.stacks import IStackPlugin, StackSettings, Transport, build_stack
from broker.transport.view import LinkState, View

#: Peers that a transport adds.
MOST_PEERS = 1_000


class IDatagramSocket(Protocol):
    """A bound datagram socket, shared by the stacks of a node."""

    @property
    def users(self) -> DatagramDemultiplexer: ...

    def resolve(self, host: str, port: int) -> Hashable:
        """Return the address of a peer. Raises OSError."""

    def stop(self) -> None: ...


#: Binds a host and port. Raises Twisted's `CannotListenError`.
OpenDatagrams = Callable[[str, int], IDatagramSocket]


class LinkOpener:
    """Opens the links of a node's transports. Transports with one address share its socket."""

    def __init__(
        self,
        settings: Settings,
        clock: IClock,
        wall_clock: Callable[[], int],
        open_datagrams: OpenDatagrams,
        find_plugins: FindPlugins,
    ) -> None:
        """`wall_clock` gives ms since 1970."""
        self._settings = settings
        self._clock = clock
        self._wall_clock = wall_clock
        self._open_datagrams = open_datagrams
        self._find_plugins = find_plugins
        key_file = settings.network.key_file
        self._key = None if key_file is None else read_key(key_file)
        self._sockets: dict[str, tuple[IDatagramSocket, list[StackLinks]]] = {}

    def open(self, instance: StackInstance, listen: str, receiver: ILinkReceiver) -> ILinks:
        """Raises `ConfigurationError`."""
        host, port = split_host_port(listen)
        if self._key is None and not is_loopback_address(listen):
            raise ConfigurationError(
                f"{listen} can be reached by others: without network.key_file it must be an "
                "address of the loopback interface"
            )
        if listen not in self._sockets:
            try:
                self._sockets[listen] = self._open_datagrams(host, port), []
            except CannotListenError as error:
                reason = getattr(error.socketError, "strerror", None) or error.socketError
                raise ConfigurationError(f"{listen}: {reason}") from None
        socket, users = self._sockets[listen]
        transport, link_stack = self._find_plugins(instance)
        assert link_stack is not None
        links = StackLinks(
            name_links(instance.name, transport, link_stack),
            socket,
            receiver,
            self._clock,
            lambda peer: self._build_stack(instance, peer),
            lambda links: self._close(listen, links),
        )
        users.append(links)
        return links

    def _build_stack(self, instance: StackInstance, peer: str) -> Stack:
        plugin = self._find_plugins(instance)[1]
        assert plugin is not None
        below = [] if self._key is None else [MacLayer(secret=self._key)]
        settings = StackSettings(
            # It rises, so that a layer can tell old packets.
            incarnation=self._wall_clock() << 16 | int.from_bytes(os.urandom(2), "big"),
            transport=Transport.DATAGRAM,
            suspect=self._settings.network.suspect,
            options=instance.link_options,
        )
        faults = create_layers(self._settings.faults, peer, self._clock.seconds())
        return build_stack(plugin, settings, DATAGRAM_PROPERTIES, [*below, *faults])

    def _close(self, listen: str, links: StackLinks) -> None:
        socket, users = self._sockets[listen]
        users.remove(links)
        if not users:
            del self._sockets[listen]
            socket.stop()


@implementer(ILinks, IStackReceiver)
class StackLinks:
    """Links of one transport instance. Strangers are bounded by the datagram port."""

    def __init__(
        self,
        name: str,
        socket: IDatagramSocket,
        receiver: ILinkReceiver,
        clock: IClock,
        make_stack: Callable[[str], Stack],
        on_close: Callable[[StackLinks], object],
    ) -> None:
        """`name` tells the datagrams of this instance apart; it is the same at all nodes.

        Raises `ConfigurationError` if the layers do not fit on datagrams.
        """
        self.dropped = 0
        """Messages for links without room, or without a peer."""
        self._socket = socket
        self._receiver = receiver
        self._clock = clock
        self._make_stack = make_stack
        self._on_close = on_close
        stack = make_stack("")
        self._driver = StackDriver(stack.layers, clock, self, bottom=stack.bottom)
        self._added: set[Peer] = set()
        self._port = socket.users.open_port(name, self._accept)

    def add_peer(self, address: tuple[str, int]) -> Hashable:
        try:
            peer = self._socket.resolve(*address)
        except OSError as error:
            raise ConfigurationError(f"{address[0]}: {error}") from None
        if peer not in self._added and len(self._added) >= MOST_PEERS:
            raise Overloaded(f"there are {MOST_PEERS} peers")
        self.remove_peer(peer)
        self._added.add(peer)
        self._attach(self._port.connect(peer), peer)
        return peer

    def remove_peer(self, peer: Hashable) -> None:
        self._added.discard(peer)
        if peer in self._driver.links:
            self._driver.remove(peer, Closed("the transport has ended the link"))

    def send(self, messages: Sequence[bytes], peers: Sequence[Hashable]) -> None:
        for peer in peers:
            link = self._driver.links.get(peer)
            try:
                if link is None:
                    raise Closed("there is no link")
                link.send(messages)
            except (Overloaded, Closed):
                self.dropped += len(messages)

    def close(self) -> None:
        for peer in list(self._driver.links):
            self.remove_peer(peer)
        self._port.stop()
        self._on_close(self)

    def _accept(self, channel: IDatagramChannel, peer: Peer) -> None:
        if peer in self._driver.links:
            self._driver.remove(peer, Closed("a newer link to the peer"))
        self._attach(channel, peer)

    def _attach(self, channel: IDatagramChannel, peer: Peer) -> None:
        stack = self._make_stack(format_address(peer))
        self._driver.join(peer, stack).attach(channel)
        channel.resume()

    def messages_received(self, peer: Peer, messages: Sequence[bytes]) -> None:
        self._receiver.messages_received(peer, messages)
        self._driver.consumed(peer, len(messages))

    def view_changed(self, peer: Peer, view: View) -> None:
        if view.state is LinkState.DISCONNECTED and peer not in self._added:
            # This call comes from the link that is to be removed.
            self._clock.callLater(0, self._forget, peer, view.error)

    def _forget(self, peer: Peer, error: BrokerError | None) -> None:
        link = self._driver.links.get(peer)
        if link is not None and not link.is_attached and peer not in self._added:
            self._driver.remove(peer, error or Closed("the peer has gone"))

    def writable_changed(self, peer: Peer, writable: bool) -> None:
        """Messages for a full link are dropped."""


def name_links(instance: str, transport: IStackPlugin, links: IStackPlugin) -> str:
    """Return the name by which links tell their datagrams apart, also from other versions'."""
    return " ".join((instance, *(f"{each.name} {each.version}" for each in (transport, links))))


def open_udp(reactor: Any) -> OpenDatagrams:
    """Return a function that binds UDP ports on a reactor."""

    def bind(host: str, port: int) -> IDatagramSocket:
        socket = UdpSocket(reactor, host, port)
        socket.start()
        return socket

    return bind
