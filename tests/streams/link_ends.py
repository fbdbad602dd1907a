"""Nodes with links over connections in memory, without the rest of a node."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from random import Random
from typing import NoReturn

import attrs
from twisted.internet.task import Clock
from zope.interface import implementer

from broker.cluster.address import Address
from broker.cluster.admission import AdmissionContext
from broker.cluster.descriptor import NodeDescriptor
from broker.cluster.handshake_messages import PROTOCOL_VERSIONS
from broker.config import NodeSettings, Settings
from broker.config.stacks import Plugins, StackInstance
from broker.queue_memory import QueueMemory
from broker.streams.connection_links import ConnectionLinks
from broker.streams.connection_port import NodeIdentity
from broker.streams.contract import ILinkReceiver
from broker.streams.link_sockets import LinkSockets
from broker.streams.links import LinkOpener
from broker.testing.killable import KillableClock
from broker.testing.memory_connections import MemoryConnections, link_place
from broker.testing.memory_network import MemoryNetwork
from broker.transport.socket import ISocketChannel
from broker.transport.stacks import GroupAddress, IProtocolStack, IStackPlugin
from broker.transport.view import LinkState
from plugins.mspaces.stack import mspaces

PORT = 9000


@attrs.frozen
class StandIn:
    """The description of a transport."""

    name: str = "tested"
    version: int = 1


class Wire:
    """A network in virtual time."""

    def __init__(self, seed: int = 0) -> None:
        self.clock = Clock()
        self.network = MemoryNetwork(self.clock, seed, jitter=0.002)
        self.ends: list[End] = []
        self.open_group: Callable[[GroupAddress], ISocketChannel] = _no_group

    def run(self, seconds: float) -> None:
        end = self.clock.seconds() + seconds
        while self.clock.calls and self.clock.calls[0].getTime() <= end:
            self.clock.advance(max(0.0, self.clock.calls[0].getTime() - self.clock.seconds()))
        self.clock.advance(max(0.0, end - self.clock.seconds()))

    def cut(self, one: End, other: End, *, refuse: bool = False) -> None:
        for here, there in ((one, other), (other, one)):
            path = self.network.path(link_place(here.address), link_place(there.address))
            if refuse:
                self.network.refuse(path)
            self.network.cut(path)

    def heal(self, one: End, other: End) -> None:
        for here, there in ((one, other), (other, one)):
            self.network.heal(
                self.network.path(link_place(here.address), link_place(there.address))
            )

    def silence(self, one: End, other: End) -> None:
        """Let nothing of one end reach the other, until `end_silence`."""
        here, there = link_place(one.address), link_place(other.address)
        self.network.hold(self.network.path(there, here), to_listener=True)
        self.network.hold(self.network.path(here, there), to_listener=False)

    def end_silence(self, one: End, other: End) -> None:
        here, there = link_place(one.address), link_place(other.address)
        self.network.release(self.network.path(there, here), to_listener=True)
        self.network.release(self.network.path(here, there), to_listener=False)

    def connections(self, ends: Sequence[End] = ()) -> int:
        """Return the number of connections among ends, or all."""
        return sum(
            self.network.connections(
                self.network.path(link_place(one.address), link_place(other.address))
            )
            for one in ends or self.ends
            for other in ends or self.ends
        )


@implementer(ILinkReceiver)
class End:
    """One process of a node, with an opener of links."""

    def __init__(
        self,
        wire: Wire,
        name: str,
        *,
        host: str = "",
        key: bytes | None = None,
        origin: str = "",
        incarnation: int = 1,
        version: int = 1,
        settings: Settings | None = None,
        link_stack: IProtocolStack = mspaces,
    ) -> None:
        self.wire = wire
        self.address = (host or f"10.0.0.{ord(name[0])}", PORT)
        self.received: list[tuple[Hashable, bytes]] = []
        self.states: list[tuple[Hashable, str]] = []
        self.clock = KillableClock(wire.clock)
        self.context: AdmissionContext | None = None
        self._transport = StandIn(version=version)
        self._link_stack = link_stack
        settings = settings or Settings()
        settings = attrs.evolve(
            settings,
            node=NodeSettings(name=name, data=Path("nowhere")),
            # The memory network has no loopback.
            network=attrs.evolve(settings.network, key_file=Path("of the test")),
        )
        self.node = NodeDescriptor(
            *(Address(("c",), name), origin or f"{ord(name[0]):016x}", incarnation),
            PROTOCOL_VERSIONS,
        )
        identity = NodeIdentity("net", key, lambda: self.node, lambda: self.context)
        self.opener = LinkOpener(
            *(settings, identity, self.clock, lambda: 1, Random(name)),
            LinkSockets(_no_datagrams, self._open, lambda group: wire.open_group(group)),
            self._find_plugins,
            QueueMemory(),
        )
        wire.ends.append(self)

    def open(
        self, instance: str = "radar", *, receiver: object = None, link_options: object = None
    ) -> ConnectionLinks:
        text = f"{self.address[0]}:{self.address[1]}"
        links = self.opener.open(
            StackInstance(instance, link_options=link_options),
            text,
            receiver or self,  # type: ignore[arg-type]
        )
        assert isinstance(links, ConnectionLinks)
        return links

    def messages_received(self, peer: Hashable, messages: Sequence[bytes]) -> None:
        self.received += [(peer, each) for each in messages]

    def link_changed(self, peer: Hashable, state: LinkState) -> None:
        self.states.append((peer, state.value))

    def _open(self, host: str, port: int, _: object, on_connect: object) -> MemoryConnections:
        return MemoryConnections(
            self.wire.network,
            self.clock,
            (host, port),
            on_connect,  # type: ignore[arg-type]
        )

    def _find_plugins(self, _: StackInstance) -> Plugins:
        transport: IStackPlugin = self._transport  # type: ignore[assignment]
        return transport, self._link_stack  # type: ignore[return-value]


def _no_group(group: GroupAddress) -> NoReturn:
    raise AssertionError


def _no_datagrams(host: str, port: int) -> NoReturn:
    raise AssertionError


def linked(*added: str, seed: int = 0) -> tuple[Wire, list[End], list[ConnectionLinks]]:
    """Nodes "a", "b" and so on; each entry of `added` names those that it adds."""
    wire = Wire(seed)
    ends = [End(wire, name) for name, _ in zip("abcdef", added, strict=False)]
    links = [end.open() for end in ends]
    for own, names in zip(links, added, strict=True):
        for name in names:
            own.add_peer(ends["abcdef".index(name)].address)
    wire.run(3.0)
    return wire, ends, links


def check_traffic(wire: Wire, ends: list[End], links: list[ConnectionLinks]) -> None:
    """Check that each node reaches each other one by its address."""
    for end in ends:
        end.received.clear()
    for end, own in zip(ends, links, strict=True):
        for other in ends:
            if other is not end:
                own.send([f"{end.node.name} {other.node.name}".encode()], [other.address])
    wire.run(1.0)
    for end in ends:
        expected = {
            (other.address, f"{other.node.name} {end.node.name}".encode())
            for other in ends
            if other is not end
        }
        assert set(end.received) == expected
        assert len(end.received) == len(expected)
