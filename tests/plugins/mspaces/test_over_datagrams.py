"""The `mspaces` stack over UDP, on a network that loses and reorders."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from random import Random

import pytest
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface import implementer

from broker.errors import PeerSilent
from broker.testing.datagram_network import DatagramFaults, DatagramNetwork, MemoryDatagramSocket
from broker.transport.arq import ArqSettings
from broker.transport.arq.connection_endpoint import ConnectionEndpoint
from broker.transport.driver import IStackReceiver, StackDriver
from broker.transport.socket import DEFAULT_MAX_FRAME, TCP_PROPERTIES, ISocketChannel
from broker.transport.stacks import StackSettings, Transport, build_stack, find_stack
from broker.transport.view import LinkState, View

LOSSY = DatagramFaults(loss=0.1, duplication=0.05, corruption=0.02, delay=0.005, jitter=0.01)
RELIABLE = DatagramFaults(delay=0.005)


class DatagramWire:
    """A wire that exists before its endpoint."""

    def __init__(self, network: DatagramNetwork, address: tuple[str, int]) -> None:
        self.endpoint: ConnectionEndpoint | None = None
        self.bound: MemoryDatagramSocket = network.bind(address, self._receive)

    def _receive(self, batch: Sequence[tuple[bytes, Hashable]]) -> None:
        if self.endpoint is not None:
            self.endpoint.datagrams_received(batch)


@implementer(IStackReceiver)
class Node:
    """A neighbour with a port; the first one dials until it is connected."""

    def __init__(self, clock: Clock, network: DatagramNetwork, number: int) -> None:
        settings = StackSettings(incarnation=number, transport=Transport.UDP)
        stack = build_stack(find_stack("mspaces"), settings, TCP_PROPERTIES)
        self.clock = clock
        self.driver = StackDriver(stack.layers, clock, self, stack.bottom)
        wire = DatagramWire(network, ("node", number))
        self.endpoint = wire.endpoint = ConnectionEndpoint(
            *(clock, wire.bound, self.driver.attach, ArqSettings()),
            *(Random(number).randbytes, DEFAULT_MAX_FRAME),
        )
        self.dials = number == 1
        self.messages: list[bytes] = []
        self.views: list[View] = []

    def dial(self) -> None:
        self.endpoint.connect(("node", 2)).addCallbacks(self._connected, self._failed)

    def _connected(self, channel: ISocketChannel) -> None:
        self.driver.attach(channel)

    def _failed(self, _: Failure) -> None:
        self.clock.callLater(0.5, self.dial)

    def messages_received(self, messages: Sequence[bytes]) -> None:
        self.messages += messages
        self.driver.consumed(len(messages))

    def view_changed(self, view: View) -> None:
        self.views.append(view)
        if self.dials and view.state is LinkState.DISCONNECTED:
            self.clock.callLater(0.5, self.dial)

    def writable_changed(self, writable: bool) -> None:
        """Ignored: little is sent."""


class Link:
    def __init__(self, seed: int, faults: DatagramFaults) -> None:
        self.clock = Clock()
        self.network = DatagramNetwork(self.clock, seed, faults)
        self.one, self.other = (Node(self.clock, self.network, number) for number in (1, 2))
        self.one.dial()
        self.run(2.0)

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds * 200)):
            self.clock.advance(0.005)


@pytest.mark.parametrize("seed", range(5))
def test_lost_datagrams_cost_no_connection(seed: int) -> None:
    link = Link(seed, LOSSY)
    sent = [b"%d" % number + bytes(number * 7 % 3000) for number in range(300)]
    for message in sent:
        link.one.driver.send([message])
        link.other.driver.send([message])
        link.run(0.01)
    link.run(3.0)
    assert link.other.messages == link.one.messages == sent
    assert [view.state for view in link.one.views] == [LinkState.CONNECTED]
    assert link.network.lost > 50


def test_partition_is_noticed_within_liveness_and_messages_arrive_later() -> None:
    link = Link(1, RELIABLE)
    link.one.driver.send([b"before"])
    link.run(0.1)
    link.network.cut(("node", 1), ("node", 2))
    link.one.driver.send([b"during"])
    link.run(5.1)
    broken = link.one.views[-1]
    assert broken.state is LinkState.DISCONNECTED
    assert isinstance(broken.error, PeerSilent)
    link.network.heal()
    link.run(10.0)
    link.one.driver.send([b"after"])
    link.run(0.2)
    assert link.other.messages == [b"before", b"during", b"after"]
    assert link.one.views[-1] == View(LinkState.CONNECTED, resumed=True)
