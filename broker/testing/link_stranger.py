"""A node outside of a simulation's network, on the links of its stream transports."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from random import Random

from zope.interface import implementer

from broker.cluster import messages
from broker.cluster.address import Address
from broker.cluster.descriptor import Endpoint, NodeDescriptor
from broker.cluster.handshake_core import Initiator
from broker.cluster.handshake_messages import LINKS, PROTOCOL_VERSIONS
from broker.config import Settings
from broker.config.stacks import Plugins, StackInstance
from broker.queue_memory import QueueMemory
from broker.streams.connection_port import NodeIdentity
from broker.streams.contract import ILinkReceiver, ILinks
from broker.streams.link_sockets import LinkSockets
from broker.streams.links import LinkOpener, name_links
from broker.testing.datagram_network import SharedMemorySocket
from broker.testing.killable import KillableClock
from broker.testing.memory_connections import MemoryConnections, link_place
from broker.testing.simulated_network import NetworkWorld
from broker.testing.virtual_time import BEGINNING
from broker.transport.socket import ISocketChannel
from broker.transport.stacks import Transport
from broker.transport.view import LinkState

_HOST, _PORT = "127.0.0.2", 1
_NODE = NodeDescriptor(
    *(Address((), "stranger"), "f" * 16, 1, PROTOCOL_VERSIONS), Endpoint(_HOST, _PORT)
)


@implementer(ILinkReceiver)
class _Deaf:
    def messages_received(self, peer: Hashable, messages: Sequence[bytes]) -> None:
        """Ignore them."""

    def link_changed(self, peer: Hashable, state: LinkState) -> None:
        """Ignore it."""


def open_stranger(world: NetworkWorld, instance: StackInstance, plugins: Plugins) -> ILinks:
    """Return links over the link stack of an instance, of a node without the instance."""
    clock = KillableClock(world.clock)

    def open_connections(
        host: str, port: int, _: Transport, on_connect: Callable[[ISocketChannel], None]
    ) -> MemoryConnections:
        return MemoryConnections(world.network, clock, (host, port), on_connect)

    settings = Settings()
    opener = LinkOpener(
        settings,
        NodeIdentity(settings.network.name, None, lambda: _NODE, lambda: None),
        clock,
        lambda: BEGINNING,
        Random(world.seed),
        LinkSockets(
            lambda host, port: SharedMemorySocket(world.datagrams, (host, port)), open_connections
        ),
        lambda _: plugins,
        QueueMemory(),
    )
    return opener.open(instance, f"{_HOST}:{_PORT}", _Deaf())


def make_hello(instance: StackInstance, plugins: Plugins) -> bytes:
    """Return the first packet of such a node on a connection."""
    transport, links = plugins
    assert links is not None
    purpose = LINKS + name_links(instance.name, transport, links)
    core = Initiator(_NODE, Settings().network.name, None, purpose)
    return messages.encode(core.hello())


def send_garbage(world: NetworkWorld, address: tuple[str, int], packets: Sequence[bytes]) -> None:
    """Send packets on a new connection of a stranger, and leave it open."""

    def send(channel: ISocketChannel) -> None:
        channel.send(packets)

    world.network.connect(link_place(address), link_place((_HOST, _PORT))).addCallback(send)
