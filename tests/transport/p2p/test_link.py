from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest
from twisted.internet.task import Clock
from zope.interface import implementer

from broker.errors import BrokerError, NotConnected, Overloaded, PeerSilent, ProtocolError
from broker.testing.memory_network import MemoryNetwork
from broker.transport.driver import IStackReceiver, StackDriver
from broker.transport.p2p import P2PLayer
from broker.transport.p2p.core import P2PCore
from broker.transport.p2p.wire import DATA_HEADER, MESSAGE_COST
from broker.transport.view import LinkState, View

WINDOW = 100_000
SEND_BUFFER = 400_000


@implementer(IStackReceiver)
class End:
    """A user that records callbacks, and consumes at once or not at all."""

    def __init__(self, clock: Clock, incarnation: int, consumes: bool) -> None:
        self.driver = StackDriver(
            [
                P2PLayer(
                    incarnation=incarnation,
                    window_bytes=WINDOW,
                    send_buffer_bytes=SEND_BUFFER,
                )
            ],
            clock,
            self,
        ).join("peer")
        self.consumes = consumes
        self.messages: list[bytes] = []
        self.batches: list[int] = []
        self.views: list[View] = []
        self.writable: list[bool] = []

    @property
    def core(self) -> P2PCore:
        return cast(P2PCore, self.driver.cores[0])

    def messages_received(self, peer: object, messages: Sequence[bytes]) -> None:
        self.messages += messages
        self.batches.append(len(messages))
        if self.consumes:
            self.driver.consumed(len(messages))

    def view_changed(self, peer: object, view: View) -> None:
        self.views.append(view)

    def writable_changed(self, peer: object, writable: bool) -> None:
        self.writable.append(writable)


class Link:
    def __init__(self, consumes: bool = True) -> None:
        self.clock = Clock()
        self.network = MemoryNetwork(self.clock, latency=0.01)
        self.client = End(self.clock, 1, consumes)
        self.server = End(self.clock, 2, consumes)
        self.network.listen("s", lambda channel: self.server.driver.attach(channel))
        self.connect()

    def connect(self) -> None:
        self.network.connect("s").addCallback(self.client.driver.attach)
        self.run(1.0)

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds * 200)):
            self.clock.advance(0.005)


@pytest.fixture
def link() -> Link:
    return Link()


def test_both_ends_see_a_conversation_that_starts_from_nothing(link: Link) -> None:
    assert link.client.views == link.server.views == [View(LinkState.CONNECTED)]


def test_a_batch_arrives_as_a_batch_and_is_acknowledged(link: Link) -> None:
    link.client.driver.send([b"%d" % number for number in range(300)])
    link.run(0.1)
    assert link.server.messages == [b"%d" % number for number in range(300)]
    assert link.server.batches == [300]
    assert link.client.core.sender.buffered == 0


def test_a_consumer_that_takes_nothing_stops_the_sender_at_the_window() -> None:
    link = Link(consumes=False)
    message = bytes(1000 - MESSAGE_COST)
    for _ in range(100):
        try:
            link.client.driver.send([message] * 10)
        except Overloaded:
            break
        link.run(0.05)
    else:
        pytest.fail("the sender was never stopped")
    link.run(120.0)
    assert len(link.server.messages) == WINDOW // 1000
    assert link.client.core.sender.buffered == SEND_BUFFER
    assert link.client.writable == [False]
    assert link.client.driver.is_attached  # the peers still receive from each other

    link.server.consumes = True
    link.server.driver.consumed(len(link.server.messages))
    link.run(2.0)
    assert len(link.server.messages) == (WINDOW + SEND_BUFFER) // 1000
    assert link.client.writable == [False, True]


def test_a_message_larger_than_the_window_gets_through(link: Link) -> None:
    large = bytes(3 * WINDOW)
    link.client.driver.send([b"a", large, b"b"])
    link.run(0.3)
    assert link.server.messages == [b"a", large, b"b"]


def test_a_conversation_goes_on_over_a_new_connection(link: Link) -> None:
    link.client.driver.send([b"one"])
    link.server.driver.send([b"eins"])
    link.run(0.1)
    link.client.driver.send([b"two"])  # lost on its way
    link.network.cut("s")
    link.run(0.1)
    assert not link.client.driver.is_attached
    link.client.driver.send([b"three"])  # sent without a connection
    link.server.driver.send([b"zwei"])
    link.connect()
    assert link.server.messages == [b"one", b"two", b"three"]
    assert link.client.messages == [b"eins", b"zwei"]
    for end in (link.client, link.server):
        assert [view.state for view in end.views] == [
            LinkState.CONNECTED,
            LinkState.DISCONNECTED,
            LinkState.CONNECTED,
        ]
        assert isinstance(end.views[1].error, NotConnected)
        assert end.views[2].resumed


def test_a_newer_connection_takes_the_place_of_the_older_one(link: Link) -> None:
    link.client.driver.send([b"one"])
    link.connect()
    link.client.driver.send([b"two"])
    link.run(0.1)
    assert link.server.messages == [b"one", b"two"]
    assert link.network.connections("s") == 1
    assert link.client.views[-1] == View(LinkState.CONNECTED, resumed=True)


def test_a_silent_peer_fails(link: Link) -> None:
    link.network.listen("mute", lambda channel: None)
    link.network.connect("mute").addCallback(link.client.driver.attach)
    link.run(29.0)
    assert link.client.driver.is_attached
    link.run(2.0)
    assert isinstance(link.client.views[-1].error, PeerSilent)


def test_idle_ends_keep_their_connection(link: Link) -> None:
    link.run(200.0)
    assert link.client.driver.is_attached
    assert link.server.driver.is_attached


def test_faults_of_the_peer_reach_the_user_as_typed_errors(link: Link) -> None:
    attachment = link.client.driver._binding
    assert attachment is not None
    attachment.channel.send([b"GET / HTTP/1.1"])
    link.run(0.1)
    error: BrokerError | None = link.server.views[-1].error
    assert isinstance(error, ProtocolError)


def test_no_timer_is_left_when_both_ends_have_closed(link: Link) -> None:
    link.client.driver.send([b"one"])
    link.client.driver.close()
    link.run(0.1)
    assert link.server.messages == [b"one"]
    assert link.server.views[-1] == View(LinkState.DISCONNECTED)
    assert link.clock.getDelayedCalls() == []


def test_the_header_of_a_message_is_as_long_as_documented() -> None:
    assert DATA_HEADER == 29
