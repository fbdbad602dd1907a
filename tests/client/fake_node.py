"""A scripted node for a client in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.internet.task import Clock
from zope.interface import implementer

from broker.client.client import Client
from broker.client.settings import ClientSettings
from broker.errors import BrokerError
from broker.testing.memory_network import MemoryNetwork
from broker.testing.simulated_loop import simulated_client
from broker.transport.driver import IStackReceiver, StackDriver
from broker.transport.socket import ISocketChannel, ISocketReceiver
from broker.transport.view import LinkState, View
from broker.wire import messages
from broker.wire.codec import Message
from broker.wire.messages import Subscribe, Welcome
from broker.wire.stack import session_layers

WINDOW = 1 << 20
#: In ms since 1970.
NOW = 1_700_000_000_000


class FakeNet:
    def __init__(self) -> None:
        self.clock = Clock()
        self.network = MemoryNetwork(self.clock, 1)

    def run(self, seconds: float = 1.0) -> None:
        self.clock.pump([0.005] * int(seconds / 0.005))

    def client(self, *nodes: FakeNode, **settings: Any) -> Client:
        """Return a client, connected to the first node."""
        own = ClientSettings(
            "alice", 1, wall_clock=lambda: NOW, first_wait=0.05, longest_wait=0.1, **settings
        )
        client = simulated_client(self.clock, self.network, [n.address for n in nodes], own)
        self.run()
        return client


@implementer(ISocketReceiver)
class _HelloReceiver:
    def __init__(self, node: FakeNode, channel: ISocketChannel) -> None:
        self._node, self._channel = node, channel
        channel.receiver = self

    def packets_received(self, packets: Sequence[bytes]) -> None:
        self._node.accept(self._channel)

    def channel_lost(self, error: BrokerError | None) -> None:
        pass

    def writable_changed(self, writable: bool) -> None:
        pass


@implementer(IStackReceiver)
class FakeNode:
    """One session at a time; each connection begins a new one."""

    def __init__(self, net: FakeNet, name: str) -> None:
        self._net = net
        self.name = name
        self.address = f"node/{name}"
        self.received: list[Message] = []
        self.sessions = 0
        self._port = net.network.listen(
            self.address, lambda channel: self._attach_receiver(channel)
        )

    def _attach_receiver(self, channel: ISocketChannel) -> None:
        _HelloReceiver(self, channel)

    def accept(self, channel: ISocketChannel) -> None:
        welcome = Welcome(1, self.name, f"o-{self.name}", WINDOW, WINDOW, f"c/{self.name}")
        channel.send([messages.encode(welcome)])
        self.sessions += 1
        self.driver = StackDriver(
            session_layers(1000 + self.sessions, WINDOW), self._net.clock, self
        ).join("peer")
        self.driver.attach(channel)

    def messages_received(self, peer: object, batch: Sequence[bytes]) -> None:
        self.received += [messages.decode(data) for data in batch]
        self.driver.consumed(len(batch))

    def view_changed(self, peer: object, view: View) -> None:
        self.up = view.state is LinkState.CONNECTED

    def writable_changed(self, peer: object, writable: bool) -> None:
        pass

    @property
    def subscribes(self) -> list[Subscribe]:
        return [message for message in self.received if isinstance(message, Subscribe)]

    def send(self, *outgoing: Message | bytes) -> None:
        """Send and let the messages arrive."""
        self.driver.send([m if isinstance(m, bytes) else messages.encode(m) for m in outgoing])
        self._net.run(0.1)

    def die(self) -> None:
        """Cut the connection and refuse new ones."""
        self._net.network.refuse(self.address)
        self._net.network.cut(self.address)
        self._net.run()
