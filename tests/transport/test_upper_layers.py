"""Layers above the links: they see each peer's views, and the outcome for each destination."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import ClassVar

import attrs
import pytest
from twisted.internet.task import Clock
from zope.interface import implementer

from broker.errors import Closed, Overloaded, PeerSilent, ProtocolError, StackError
from broker.transport.driver import IStackReceiver, StackDriver
from broker.transport.effects import DeliverUp, Effect, Failed, Outcomes, SendDown, ViewChanged
from broker.transport.layer import ILayer, ILayerCore, PassThrough, Property
from broker.transport.message import Message, Outcome, Peer
from broker.transport.multicast import MulticastLayer
from broker.transport.socket import TCP_PROPERTIES
from broker.transport.stack import Stack
from broker.transport.view import LinkState, View
from tests.transport.recording import RecordingChannel

NUMBER = struct.Struct(">I")
SENT, FULL, ABSENT = Outcome.SENT, Outcome.FULL, Outcome.ABSENT


@implementer(ILayerCore)
class NumberCore(PassThrough):
    """Numbers its messages, as an ordering layer does, and records all that it sees."""

    def __init__(self) -> None:
        self.sent = 0
        self.log: list[tuple[object, ...]] = []
        self.deadline: float | None = None
        self.on_submit: Callable[[], None] = lambda: None

    def submit(self, messages: Sequence[Message], now: float) -> list[Effect]:
        self.on_submit()
        for message in messages:
            self.sent += 1
            message.push(NUMBER.pack(self.sent))
        return [SendDown(messages)]

    def receive(self, messages: Sequence[Message], peer: Peer, now: float) -> list[Effect]:
        try:
            numbers = [NUMBER.unpack(message.pop(NUMBER.size))[0] for message in messages]
        except ProtocolError as error:
            return [Failed(error, peer)]
        self.log.append(("received", peer, numbers))
        return [DeliverUp(messages, peer)]

    def outcomes(self, messages: Sequence[Message], now: float) -> list[Effect]:
        self.log += [("outcomes", dict(message.outcomes)) for message in messages]
        return [Outcomes(messages)]

    def view_changed(self, peer: Peer, view: View, now: float) -> list[Effect]:
        self.log.append(("view", peer, view.state))
        return [ViewChanged(view, peer)]

    def writable_changed(self, peer: Peer, writable: bool, now: float) -> list[Effect]:
        self.log.append(("writable", peer, writable))
        return super().writable_changed(peer, writable, now)

    def peer_removed(self, peer: Peer, now: float) -> list[Effect]:
        self.log.append(("removed", peer))
        return []

    def handle_timeout(self, now: float) -> list[Effect]:
        self.deadline = None
        message = Message(b"timeout", destinations=("a", "b"))
        message.push(NUMBER.pack(0))
        return [SendDown([message])]

    def next_timeout(self) -> float | None:
        return self.deadline


@implementer(ILayer)
@attrs.frozen
class NumberLayer:
    core: NumberCore
    name: ClassVar[str] = "number"
    version: ClassVar[int] = 1
    requires: ClassVar[frozenset[Property]] = frozenset({Property.ONE_TO_MANY})
    provides: ClassVar[frozenset[Property]] = frozenset()
    breaks: ClassVar[frozenset[Property]] = frozenset()

    def create_core(self) -> NumberCore:
        return self.core


@implementer(IStackReceiver)
class User:
    """A driver with the peers a and b, whose channels are the test's."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.core, self.upper = NumberCore(), NumberCore()
        self.errors: list[Exception] = []
        layers = [MulticastLayer(), NumberLayer(self.core), NumberLayer(self.upper)]
        self.driver = StackDriver(layers, self.clock, on_error=self.errors.append)
        self.driver.receiver = self
        self.log: list[tuple[object, ...]] = []
        self.reaction: Callable[[], None] = lambda: None
        self.channels = {name: RecordingChannel() for name in "ab"}
        for name, channel in self.channels.items():
            self.driver.join(name)
            self.driver.attach(name, channel)
        self.clear()

    def clear(self) -> None:
        for log in (self.log, self.core.log, self.upper.log):
            log.clear()

    def send(self, payload: bytes, *peers: str) -> dict[Peer, Outcome]:
        message = Message(payload, destinations=peers)
        self.driver.send([message])
        return message.outcomes

    def messages_received(self, peer: Peer, messages: Sequence[bytes]) -> None:
        self.log.append((peer, *messages))
        self.reaction()

    def view_changed(self, peer: Peer, view: View) -> None:
        self.log.append((peer, view.state, type(view.error)))

    def writable_changed(self, peer: Peer, writable: bool) -> None:
        self.log.append((peer, writable))


def numbered(payload: bytes, *numbers: int) -> bytes:
    return b"".join(map(NUMBER.pack, numbers)) + payload


def test_each_layer_pushes_its_header_and_pops_it() -> None:
    user = User()
    user.core.sent = 100
    assert user.send(b"x", "a", "b") == {"a": SENT, "b": SENT}
    for channel in user.channels.values():
        assert channel.log == [("send", [numbered(b"x", 101, 1)])]
    user.channels["b"].deliver(numbered(b"y", 8, 9))
    assert user.core.log[-1] == ("received", "b", [8])
    assert user.upper.log[-1] == ("received", "b", [9])
    assert user.log == [("b", b"y")]


def test_a_message_without_a_header_ends_the_connection_of_that_peer_alone() -> None:
    user = User()
    user.channels["b"].deliver(b"x")
    assert user.channels["b"].log == [("abort", ProtocolError)]
    assert user.log == [("b", LinkState.DISCONNECTED, ProtocolError)]
    assert user.send(b"x", "a", "b") == {"a": SENT, "b": ABSENT}


def test_the_layers_see_each_view_and_the_outcome_for_each_destination() -> None:
    user = User()
    user.channels["b"].lose(PeerSilent("gone"))
    user.send(b"x", "a", "b", "stranger")
    seen = [
        ("view", "b", LinkState.DISCONNECTED),
        ("outcomes", {"a": SENT, "b": ABSENT, "stranger": ABSENT}),
    ]
    assert user.core.log == user.upper.log == seen


def test_a_full_link_is_reported_to_the_layers_before_the_next_message() -> None:
    user = User()
    receiver = user.channels["a"].receiver
    assert receiver is not None
    receiver.writable_changed(False)
    assert user.send(b"x", "a", "b") == {"a": FULL, "b": SENT}
    receiver.writable_changed(True)
    assert user.send(b"x", "a") == {"a": SENT}
    assert user.log == [("a", False), ("a", True)]
    assert [entry for entry in user.core.log if entry[0] == "writable"] == [
        ("writable", "a", False),
        ("writable", "a", True),
    ]


def test_a_message_sent_from_a_callback_has_its_outcomes_at_once_and_overtakes_none() -> None:
    user = User()
    outcomes: list[dict[Peer, Outcome]] = []
    user.reaction = lambda: outcomes.append(dict(user.send(b"answer", "a")))
    user.channels["b"].deliver(numbered(b"1", 0, 0), numbered(b"2", 0, 0))
    user.channels["a"].deliver(numbered(b"3", 0, 0))
    assert outcomes == [{"a": SENT}] * 2
    assert user.channels["a"].log == [
        ("send", [numbered(b"answer", 1, 1)]),
        ("send", [numbered(b"answer", 2, 2)]),
    ]


def test_a_layer_without_room_makes_all_destinations_full() -> None:
    user = User()

    def refuse() -> None:
        raise Overloaded("full")

    user.core.on_submit = refuse
    assert user.send(b"x", "a", "b") == {"a": FULL, "b": FULL}
    assert user.upper.log == [("outcomes", {"a": FULL, "b": FULL})]
    with pytest.raises(Overloaded):
        user.driver.links["a"].send([b"x"])


def test_a_message_that_a_layer_keeps_is_accepted() -> None:
    user = User()
    user.core.submit = lambda messages, now: []  # type: ignore[method-assign]
    assert user.send(b"x", "a", "b") == {"a": SENT, "b": SENT}
    assert user.upper.log == []


def test_a_removed_peer_is_reported_to_the_layers_only() -> None:
    user = User()
    user.driver.remove("b", Closed("removed"))
    assert user.channels["b"].log == [("abort", Closed)]
    assert user.core.log == user.upper.log == [("removed", "b")]
    assert user.log == []
    user.driver.consumed("b", 1)
    with pytest.raises(KeyError):
        user.driver.close("b")


def test_close_and_abort_act_on_one_peer() -> None:
    user = User()
    user.driver.close("a")
    user.driver.abort("b", PeerSilent("x"))
    assert user.channels["a"].log == [("close",)]
    assert user.channels["b"].log == [("abort", PeerSilent)]
    user.channels["a"].lose()
    assert user.clock.getDelayedCalls() == []


def test_a_layer_is_called_when_its_deadline_has_come() -> None:
    user = User()
    user.core.deadline = 3.0
    user.send(b"x", "a")
    user.clock.advance(3.0)
    assert user.channels["b"].log == [("send", [numbered(b"timeout", 0)])]
    assert user.clock.getDelayedCalls() == []


def test_a_layer_that_raises_ends_the_stack_for_all_peers() -> None:
    user = User()

    def fail() -> None:
        raise KeyError("a bug")

    user.upper.on_submit = fail
    user.core.deadline = 3.0
    assert user.send(b"x", "a", "b") == {"a": ABSENT, "b": ABSENT}
    assert [type(error) for error in user.errors] == [KeyError]
    assert [(entry[0], *entry[1:]) for entry in user.log] == [
        ("a", LinkState.DISCONNECTED, Closed),
        ("b", LinkState.DISCONNECTED, Closed),
    ]
    assert [channel.log for channel in user.channels.values()] == [[("abort", Closed)]] * 2
    assert user.send(b"x", "a", "c") == {"a": ABSENT, "c": ABSENT}
    assert user.clock.getDelayedCalls() == []
    with pytest.raises(Closed, match="a bug"):
        user.driver.join("c")


def test_a_receiver_that_raises_ends_the_link_of_that_peer_alone() -> None:
    user = User()

    def fail() -> None:
        raise KeyError("a bug")

    user.reaction = fail
    user.channels["b"].deliver(numbered(b"x", 0, 0))
    assert [type(error) for error in user.errors] == [KeyError]
    assert user.log[1:] == [("b", LinkState.DISCONNECTED, Closed)]
    assert user.send(b"x", "a", "b") == {"a": SENT, "b": ABSENT}


def test_a_link_has_the_upper_layers_of_its_stack() -> None:
    user = User()
    with pytest.raises(StackError, match="'c' has other layers above the links"):
        user.driver.join("c", Stack("other", [MulticastLayer()], TCP_PROPERTIES))
