"""The client's connection machine, with a passive loop."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, cast

from twisted.internet.task import Clock
from zope.interface import implementer

from broker.client.connection import HANDSHAKE_TIMEOUT, Connection, make_connection_machine
from broker.errors import (
    AuthenticationFailed,
    BrokerError,
    NotConnected,
    PeerSilent,
    ProtocolError,
    ShuttingDown,
)
from broker.transport.backoff import SUCCESS_AFTER, Backoff
from broker.transport.socket import ISocketChannel, ISocketReceiver
from broker.wire import messages
from broker.wire.messages import MAGIC, Goodbye, Hello, Refuse, Welcome
from tests.transport.recording import RecordingChannel

HELLO = Hello(MAGIC, (1,), "a", 1, b"t" * 16, "", "")
WELCOME = messages.encode(Welcome(1, "node", "origin", 1000, 1000, "node"))


@implementer(ISocketReceiver)
class Stack:
    def __init__(self) -> None:
        self.received: list[bytes] = []

    def packets_received(self, packets: Sequence[bytes]) -> None:
        self.received += packets

    def channel_lost(self, error: BrokerError | None) -> None:
        raise NotImplementedError

    def writable_changed(self, writable: bool) -> None:
        raise NotImplementedError


class World:
    def __init__(self, *endpoints: str) -> None:
        self.clock = Clock()
        self.dialled: list[str] = []
        self.attached: list[ISocketChannel] = []
        self.downs: list[BrokerError | None] = []
        self.stops: list[BrokerError | None] = []
        self.stack = Stack()
        self.backoff = Backoff(1.0, 8.0, random.Random(1))
        self.machine = make_connection_machine(
            Connection(
                loop=cast(Any, self),
                endpoints=endpoints or ("one",),
                make_hello=lambda credential: HELLO,
                attach=self._attach,
                on_down=self.downs.append,
                on_stopped=self.stops.append,
                backoff=self.backoff,
            )
        )

    def _attach(self, channel: ISocketChannel, welcome: Welcome) -> None:
        self.attached.append(channel)
        channel.receiver = self.stack

    def dial(
        self,
        endpoint: str,
        connected: Callable[[ISocketChannel], None],
        failed: Callable[[BrokerError], None],
    ) -> None:
        self.dialled.append(endpoint)
        self.connected, self.failed = connected, failed

    def connect(self) -> RecordingChannel:
        channel = RecordingChannel()
        self.connected(channel)
        return channel


def greeted(world: World) -> RecordingChannel:
    world.machine.start()
    channel = world.connect()
    channel.deliver(WELCOME)
    return channel


def test_it_dials_sends_hello_and_attaches_the_channel() -> None:
    world = World()
    channel = greeted(world)
    assert channel.log == [("send", [messages.encode(HELLO)])]
    assert world.attached == [channel]
    assert world.clock.getDelayedCalls() == []


def test_packets_after_the_welcome_go_to_the_new_receiver() -> None:
    world = World()
    world.machine.start()
    channel = world.connect()
    channel.deliver(WELCOME, b"first packet")
    assert world.stack.received == [b"first packet"]


def test_endpoints_rotate_with_growing_backoff() -> None:
    world = World("one", "two")
    world.machine.start()
    waits = []
    for _ in range(6):
        world.failed(NotConnected("refused"))
        (call,) = world.clock.getDelayedCalls()
        waits.append(call.getTime() - world.clock.seconds())
        world.clock.advance(waits[-1])
    assert world.dialled == ["one", "two"] * 3 + ["one"]
    for wait, bound in zip(waits, (1, 2, 4, 8, 8, 8), strict=True):
        assert bound / 2 <= wait <= bound
    assert len(world.downs) == 6


def _wait_after_session(lasted: float) -> float:
    """Return the backoff after five failures and one session of `lasted` seconds."""
    world = World()
    world.machine.start()
    for _ in range(5):
        world.failed(NotConnected("refused"))
        world.clock.advance(8)
    world.connect().deliver(WELCOME)
    world.backoff.report_up(world.clock.seconds())
    world.clock.advance(lasted)
    world.machine.lost(None)
    (call,) = world.clock.getDelayedCalls()
    return float(call.getTime() - world.clock.seconds())


def test_a_lasting_session_resets_the_backoff() -> None:
    assert _wait_after_session(SUCCESS_AFTER) <= 1


def test_a_short_session_keeps_the_backoff() -> None:
    assert _wait_after_session(0.9 * SUCCESS_AFTER) >= 4


def test_a_wrong_credential_stops_the_machine() -> None:
    world = World()
    world.machine.start()
    channel = world.connect()
    refuse = messages.encode(Refuse(AuthenticationFailed("wrong").to_wire()))
    channel.deliver(refuse)
    assert isinstance(world.stops[0], AuthenticationFailed)
    assert world.clock.getDelayedCalls() == []


def test_a_stopping_node_is_retried() -> None:
    world = World()
    world.machine.start()
    refuse = messages.encode(Refuse(ShuttingDown("stopping").to_wire()))
    world.connect().deliver(refuse)
    assert isinstance(world.downs[0], ShuttingDown)
    world.clock.advance(1)
    assert len(world.dialled) == 2


def test_a_silent_peer_is_dropped_after_the_timeout() -> None:
    world = World()
    world.machine.start()
    channel = world.connect()
    world.clock.advance(HANDSHAKE_TIMEOUT)
    assert channel.log[-1] == ("abort", PeerSilent)
    assert isinstance(world.downs[0], PeerSilent)


def test_a_peer_that_is_no_node_is_a_protocol_error() -> None:
    for answer in (b"HTTP/1.1 400", messages.encode(Goodbye())):
        world = World()
        world.machine.start()
        channel = world.connect()
        channel.deliver(answer)
        assert channel.log[-1] == ("abort", ProtocolError)
        assert isinstance(world.downs[0], ProtocolError)


def test_stopping_ends_every_state() -> None:
    idle = World()
    dialling = World()
    dialling.machine.start()
    greeting = World()
    greeting.machine.start()
    greeting.connect()
    attached = World()
    greeted(attached)
    waiting = World()
    waiting.machine.start()
    waiting.failed(NotConnected("refused"))
    for world in (idle, dialling, greeting, attached, waiting):
        world.machine.stop()
        assert world.stops == [None]
        assert world.clock.getDelayedCalls() == []


def test_a_connection_after_stopping_is_aborted() -> None:
    world = World()
    world.machine.start()
    world.machine.stop()
    assert world.connect().log == [("abort", NotConnected)]


def test_a_lost_connection_is_dialled_again() -> None:
    world = World()
    greeted(world)
    world.machine.lost(PeerSilent("gone"))
    world.clock.advance(1)
    assert len(world.dialled) == 2
