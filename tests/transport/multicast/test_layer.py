from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any
from unittest import mock

import pytest
from twisted.internet.task import Clock
from zope.interface import implementer

from broker.errors import Closed, PeerSilent
from broker.testing.memory_network import MemoryNetwork
from broker.transport.driver import IStackReceiver, Link, StackDriver
from broker.transport.message import Message, Outcome
from broker.transport.message import Peer as PeerName
from broker.transport.multicast import MulticastLayer
from broker.transport.p2p import P2PLayer
from broker.transport.shared_message import SharedMessage
from broker.transport.socket import TCP_PROPERTIES
from broker.transport.stack import Stack
from broker.transport.view import LinkState, View
from tests.seeds import seeds

BUFFER = 20_000
NAMES = ("a", "b", "c")
SENT, FULL, ABSENT = Outcome.SENT, Outcome.FULL, Outcome.ABSENT


@implementer(IStackReceiver)
class Peer:
    """The far end of one link."""

    def __init__(self, clock: Clock, incarnation: int) -> None:
        layer = P2PLayer(incarnation=incarnation, window_bytes=BUFFER)
        self.driver = StackDriver([layer], clock, self).join("hub")
        self.consumes = True
        self.messages: list[bytes] = []

    def messages_received(self, peer: object, messages: Sequence[bytes]) -> None:
        self.messages += messages
        if self.consumes:
            self.driver.consumed(len(messages))

    def view_changed(self, peer: object, view: View) -> None:
        """Ignored: the tests check the hub's views."""

    def writable_changed(self, peer: object, writable: bool) -> None:
        """Ignored: peers send little."""


@implementer(IStackReceiver)
class Hub:
    """One node with three neighbours, and a user with the callbacks of a test."""

    def __init__(self, suspect_timeout: float = 0.0) -> None:
        self.clock = Clock()
        self.network = MemoryNetwork(self.clock, latency=0.01)
        self.suspect_timeout = suspect_timeout
        self.errors: list[Exception] = []
        layers = [P2PLayer(incarnation=1), MulticastLayer()]
        self.driver = StackDriver(layers, self.clock, self, on_error=self.errors.append)
        self.received: list[tuple[object, bytes]] = []
        self.views: list[tuple[object, LinkState]] = []
        self.writable: list[tuple[object, bool]] = []
        self.on_view: Callable[[str, View], object] = lambda peer, view: None
        self.on_messages: Callable[[str, Sequence[bytes]], object] = lambda peer, messages: None
        self.on_writable: Callable[[str, bool], object] = lambda peer, writable: None
        self.peers: dict[str, Peer] = {}
        for number, name in enumerate(NAMES, 2):
            self.add(name, number)
        self.run(0.1)

    @property
    def links(self) -> dict[PeerName, Link]:
        return self.driver.links

    def add(self, name: str, incarnation: int, send_buffer_bytes: int = BUFFER) -> None:
        peer = self.peers[name] = Peer(self.clock, incarnation)
        self.network.listen(name, lambda channel: peer.driver.attach(channel))
        self.join(name, send_buffer_bytes)
        self.connect(name)

    def join(self, name: str, send_buffer_bytes: int = BUFFER) -> None:
        layer = P2PLayer(
            incarnation=1, send_buffer_bytes=send_buffer_bytes, suspect=self.suspect_timeout
        )
        self.driver.join(name, Stack("hub", [layer, MulticastLayer()], TCP_PROPERTIES))

    def connect(self, name: str) -> None:
        self.network.connect(name).addCallback(self.links[name].attach)

    def send(
        self, payload: bytes, names: Sequence[str], *, is_urgent: bool = False
    ) -> dict[PeerName, Outcome]:
        message = Message(payload, destinations=tuple(names), is_urgent=is_urgent)
        self.driver.send([message])
        return message.outcomes

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds * 100)):
            self.clock.advance(0.01)

    def messages_received(self, peer: Any, messages: Sequence[bytes]) -> None:
        self.received += [(peer, message) for message in messages]
        self.driver.consumed(peer, len(messages))
        self.on_messages(peer, messages)

    def view_changed(self, peer: Any, view: View) -> None:
        self.views.append((peer, view.state))
        self.on_view(peer, view)

    def writable_changed(self, peer: Any, writable: bool) -> None:
        self.writable.append((peer, writable))
        self.on_writable(peer, writable)


def test_a_message_reaches_each_of_its_destinations_and_no_other() -> None:
    hub = Hub()
    assert hub.send(b"1", ["a", "b"]) == {"a": SENT, "b": SENT}
    assert hub.send(b"2", ["b", "c", "b"]) == {"b": SENT, "c": SENT}
    assert hub.send(b"3", []) == {}
    hub.run(0.1)
    got = {name: peer.messages for name, peer in hub.peers.items()}
    assert got == {"a": [b"1"], "b": [b"1", b"2"], "c": [b"2"]}


def test_messages_come_with_the_name_of_the_peer_and_return_credit() -> None:
    hub = Hub()
    for number in range(100):
        hub.peers["b"].driver.send([b"%d" % number])
        hub.run(0.02)
    assert hub.received == [("b", b"%d" % number) for number in range(100)]


def test_an_absent_destination_is_reported_and_others_keep_their_order() -> None:
    hub = Hub()
    assert hub.send(b"1", NAMES) == dict.fromkeys(NAMES, SENT)
    hub.run(0.05)
    hub.network.cut("b")
    hub.run(0.05)
    assert hub.send(b"2", (*NAMES, "x")) == {"a": SENT, "b": ABSENT, "c": SENT, "x": ABSENT}
    hub.connect("b")
    hub.run(0.1)
    assert hub.send(b"3", NAMES) == dict.fromkeys(NAMES, SENT)
    hub.run(0.1)
    assert hub.peers["a"].messages == hub.peers["c"].messages == [b"1", b"2", b"3"]
    assert hub.peers["b"].messages == [b"1", b"3"]
    assert hub.views[3:] == [("b", LinkState.DISCONNECTED), ("b", LinkState.CONNECTED)]


def test_a_suspected_peer_gets_all_when_it_is_back_in_time() -> None:
    hub = Hub(suspect_timeout=5.0)
    hub.network.cut("b")
    hub.run(0.05)
    assert hub.views[-1] == ("b", LinkState.SUSPECTED)
    assert hub.send(b"1", NAMES) == dict.fromkeys(NAMES, SENT)
    hub.connect("b")
    hub.run(0.1)
    hub.send(b"2", NAMES)
    hub.run(6.0)
    assert [peer.messages for peer in hub.peers.values()] == [[b"1", b"2"]] * 3
    assert hub.views[3:] == [("b", LinkState.SUSPECTED), ("b", LinkState.CONNECTED)]


def test_a_restart_of_the_peer_is_reported_with_its_undelivered_messages_first() -> None:
    hub = Hub(suspect_timeout=5.0)
    views: list[View] = []
    hub.on_view = lambda peer, view: views.append(view)
    hub.network.cut("b")
    hub.run(0.05)
    assert hub.send(b"missed", NAMES) == dict.fromkeys(NAMES, SENT)
    restarted = StackDriver([P2PLayer(incarnation=77)], hub.clock, hub.peers["b"])
    reborn = hub.peers["b"].driver = restarted.join("hub")
    hub.connect("b")
    hub.run(0.1)
    assert reborn.is_attached
    assert [view.state for view in views] == [LinkState.SUSPECTED, LinkState.CONNECTED]
    assert (views[1].resumed, views[1].undelivered) == (False, 1)
    assert hub.send(b"after", NAMES) == dict.fromkeys(NAMES, SENT)
    hub.run(0.1)
    assert hub.peers["b"].messages == [b"after"]
    assert hub.peers["a"].messages == [b"missed", b"after"]


def test_a_peer_that_does_not_come_back_is_disconnected_when_its_time_is_over() -> None:
    hub = Hub(suspect_timeout=5.0)
    hub.network.cut("b")
    hub.run(4.9)
    assert hub.send(b"1", ["b"]) == {"b": SENT}
    hub.run(0.2)
    assert hub.send(b"2", ["b"]) == {"b": ABSENT}
    assert hub.views[3:] == [("b", LinkState.SUSPECTED), ("b", LinkState.DISCONNECTED)]


def test_a_slow_peer_is_full_in_bounded_memory_and_slows_no_other() -> None:
    hub = Hub()
    hub.peers["b"].consumes = False
    sent: dict[PeerName, int] = dict.fromkeys(NAMES, 0)
    full = 0
    for _ in range(200):
        for name, outcome in hub.send(bytes(1000), NAMES).items():
            assert outcome is SENT or (name, outcome) == ("b", FULL)
            sent[name] += outcome is SENT
            full += outcome is FULL
        hub.run(0.02)
    assert sent["a"] == sent["c"] == 200
    assert sent["b"] < 200
    # Half of the buffer is reserved for messages that must not be refused.
    assert hub.send(b"urgent", ["b"], is_urgent=True) == {"b": SENT}
    hub.peers["b"].consumes = True
    hub.peers["b"].driver.consumed(len(hub.peers["b"].messages))
    hub.run(1.0)
    assert hub.peers["b"].messages == [bytes(1000)] * sent["b"] + [b"urgent"]
    assert hub.writable == [("b", False), ("b", True)]
    assert full == 200 - sent["b"]


def test_sending_in_a_loop_from_a_callback_stops_at_the_same_mark() -> None:
    hub = Hub()
    found: list[Outcome] = []

    def flood(peer: str, messages: Sequence[bytes]) -> None:
        found.extend(hub.send(bytes(1000), ["a"])["a"] for _ in range(30))

    hub.on_messages = flood
    hub.peers["a"].driver.send([b"go"])
    hub.run(0.012)
    taken = found.count(SENT)
    assert found == [SENT] * taken + [FULL] * (30 - taken)
    assert taken * 1000 < BUFFER * 0.6
    hub.run(0.1)
    assert hub.writable == [("a", False), ("a", True)]


def test_a_message_that_a_stack_can_not_hold_is_full_for_that_peer() -> None:
    hub = Hub()
    assert hub.send(bytes(BUFFER), ["a"]) == {"a": FULL}
    assert hub.send(b"1", ["a"]) == {"a": SENT}


def test_the_check_of_a_message_is_computed_once_for_all() -> None:
    hub = Hub()
    with mock.patch.object(
        SharedMessage, "checksum", autospec=True, wraps=SharedMessage.checksum
    ) as check:
        hub.send(b"1", NAMES)
    messages = {id(call.args[0]) for call in check.call_args_list}
    assert (len(messages), check.call_count) == (1, 3)


def test_a_message_sent_from_a_callback_does_not_overtake() -> None:
    hub = Hub()
    hub.add("small", 9, send_buffer_bytes=4_000)
    hub.run(0.1)

    def send_more(peer: str, writable: bool) -> None:
        if not writable:
            told = hub.send(b"second", ["b", "c"])
            assert told == {"b": SENT, "c": SENT}

    hub.on_writable = send_more
    first = bytes(2_500)  # more than half of the buffer of the first destination
    assert SENT in hub.send(first, ["small", "b", "c"]).values()
    assert hub.writable == [("small", False)]
    hub.run(0.1)
    assert hub.peers["b"].messages == hub.peers["c"].messages == [first, b"second"]


def test_nothing_is_reported_of_a_peer_after_it_left() -> None:
    hub = Hub()
    link = hub.links["b"]
    hub.peers["b"].driver.send([b"late"])
    hub.driver.remove("b", PeerSilent("removed"))
    assert not link.is_attached
    hub.run(0.1)
    assert hub.received == []
    assert hub.views[3:] == []
    hub.driver.consumed("b", 1)
    assert hub.send(b"1", NAMES) == {"a": SENT, "b": ABSENT, "c": SENT}
    with pytest.raises(KeyError):
        hub.driver.remove("b", PeerSilent("removed"))
    with pytest.raises(Closed, match="removed"):
        link.send([b"1"])


def test_a_peer_that_left_joins_again_with_a_new_link() -> None:
    hub = Hub()
    hub.driver.remove("b", PeerSilent("left"))
    hub.join("b")
    assert hub.send(b"0", ["b"]) == {"b": ABSENT}
    hub.connect("b")
    hub.run(0.1)
    assert hub.send(b"1", ["b"]) == {"b": SENT}
    with pytest.raises(ValueError, match="'b' has joined before"):
        hub.join("b")


def test_what_waits_for_the_receiver_is_dropped_with_its_peer() -> None:
    hub = Hub()

    def leave(peer: str, messages: Sequence[bytes]) -> None:
        if "b" in hub.links:
            hub.driver.remove("b", PeerSilent("left"))

    hub.on_messages = leave
    for name in NAMES:
        hub.peers[name].driver.send([name.encode()])
    hub.run(0.1)
    assert hub.received == [("a", b"a"), ("c", b"c")]
    assert hub.errors == []


def test_a_callback_that_fails_ends_the_stack_of_that_peer_alone() -> None:
    hub = Hub(suspect_timeout=5.0)

    def fail(peer: str, view: View) -> None:
        if view.state is LinkState.DISCONNECTED:
            hub.on_view = lambda peer, view: None
            raise RuntimeError("a bug in the user's code")

    hub.on_view = fail
    hub.network.cut("b")
    hub.run(6.0)
    assert [str(error) for error in hub.errors] == ["a bug in the user's code"]
    assert hub.links["b"].failure is not None
    assert hub.send(b"1", NAMES) == {"a": SENT, "b": ABSENT, "c": SENT}
    hub.run(0.1)
    assert hub.peers["c"].messages == [b"1"]


@pytest.mark.parametrize("seed", seeds(10, 30))
def test_each_peer_gets_its_messages_in_order_independently_of_others(seed: int) -> None:
    random = Random(seed)
    hub = Hub(suspect_timeout=random.choice((0.0, 1.0)))
    expected: dict[PeerName, list[bytes]] = {name: [] for name in NAMES}

    def redial(peer: str) -> None:
        if not hub.links[peer].is_attached:
            hub.connect(peer)

    hub.on_view = lambda peer, view: (
        view.state is not LinkState.CONNECTED
        and hub.clock.callLater(random.uniform(0, 2), hub.connect, peer)
    )
    for number in range(200):
        message = b"%d" % number + bytes(random.randrange(2000))
        wanted = random.sample(NAMES, random.randrange(4))
        for name, outcome in hub.send(message, wanted).items():
            if outcome is SENT:
                expected[name].append(message)
        if random.random() < 0.1:
            hub.network.cut(random.choice(NAMES))
        hub.run(random.choice((0.0, 0.01, 0.1)))
    hub.run(20.0)
    assert {name: peer.messages for name, peer in hub.peers.items()} == expected
    assert hub.errors == []
