"""The `mspaces` stack between two nodes: messages, liveness and options."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from twisted.internet.task import Clock
from zope.interface import implementer

from broker.errors import Overloaded, PeerSilent
from broker.testing.memory_network import MemoryNetwork
from broker.transport.driver import IStackReceiver, StackDriver
from broker.transport.socket import TCP_PROPERTIES, ISocketChannel
from broker.transport.stacks import StackSettings, build_stack, find_stack
from broker.transport.view import LinkState, View
from plugins.mspaces.settings import MspacesSettings


@implementer(IStackReceiver)
class Node:
    """One end, with the time of each view."""

    def __init__(self, clock: Clock, incarnation: int, options: MspacesSettings) -> None:
        settings = StackSettings(incarnation=incarnation, options=options)
        stack = build_stack(find_stack("mspaces"), settings, TCP_PROPERTIES)
        self.clock = clock
        self.driver = StackDriver(stack.layers, clock, self, stack.bottom).join("peer")
        self.messages: list[bytes] = []
        self.views: list[tuple[float, View]] = []

    def messages_received(self, peer: object, messages: Sequence[bytes]) -> None:
        self.messages += messages
        self.driver.consumed(len(messages))

    def view_changed(self, peer: object, view: View) -> None:
        self.views.append((self.clock.seconds(), view))

    def writable_changed(self, peer: object, writable: bool) -> None:
        """Ignored: little is sent."""


class Link:
    def __init__(self, options: MspacesSettings | None = None) -> None:
        self.clock = Clock()
        self.network = MemoryNetwork(self.clock, latency=0.01)
        self.one, self.other = (
            Node(self.clock, number, options or MspacesSettings()) for number in (1, 2)
        )
        self.network.listen("other", self.other.driver.attach)
        self.network.connect("other").addCallback(self.one.driver.attach)
        self.run(1.0)

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds * 100)):
            self.clock.advance(0.01)


def test_neighbours_exchange_messages_in_order() -> None:
    link = Link()
    link.one.driver.send([b"1", b"2"])
    link.one.driver.send([b"3"])
    link.other.driver.send([b"4"])
    link.run(0.1)
    assert link.other.messages == [b"1", b"2", b"3"]
    assert link.one.messages == [b"4"]


def test_idle_link_stays_connected() -> None:
    link = Link()
    link.run(60.0)
    assert [view.state for _, view in link.one.views] == [LinkState.CONNECTED]


@pytest.mark.parametrize("liveness", [4.0, 2.0])
def test_dead_neighbour_is_noticed_within_its_liveness(liveness: float) -> None:
    link = Link(MspacesSettings(liveness=liveness))
    silent_channels: list[ISocketChannel] = []
    link.network.listen("silent_channels", silent_channels.append)
    link.network.connect("silent_channels").addCallback(link.one.driver.attach)
    link.run(liveness + 0.1)
    seconds, view = link.one.views[-1]
    assert view.state is LinkState.DISCONNECTED
    assert isinstance(view.error, PeerSilent)
    assert seconds <= 1.0 + 0.02 + liveness


def test_send_buffer_is_bounded_by_its_option() -> None:
    link = Link(MspacesSettings(send_buffer_bytes=10_000))
    with pytest.raises(Overloaded):
        link.one.driver.send([bytes(10_000)])
    link.one.driver.send([bytes(9_000)])
