"""Two real cores, two drivers, a network that breaks, faults, restarts: a schedule from a seed.

Each run must deliver every message at most once and in order. Undelivered messages must have been
counted when a restarted peer connected. Without restarts everything must arrive. Buffers must stay
within their settings, and no timer may be left.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import cast

from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface import implementer

from broker.errors import Overloaded
from broker.testing.memory_network import MemoryNetwork
from broker.transport.driver import IStackReceiver, Link, StackDriver
from broker.transport.faults import (
    CorruptLayer,
    DelayLayer,
    DiscardLayer,
    DuplicateLayer,
    PartitionLayer,
    ShuffleLayer,
    ThrottleLayer,
)
from broker.transport.layer import ILayer
from broker.transport.p2p import P2PLayer
from broker.transport.p2p.core import P2PCore
from broker.transport.p2p.wire import MESSAGE_COST
from broker.transport.socket import ISocketChannel
from broker.transport.view import LinkState, View

WINDOW = 6_000
SEND_BUFFER = 20_000
LARGEST = 8_000  # sometimes larger than the window

#: sender, its incarnation, and a number
MARK = struct.Struct(">BII")


@implementer(IStackReceiver)
class End:
    """One end of the link, with a user that sends, consumes late, and restarts."""

    def __init__(self, number: int, run: Run) -> None:
        self.number = number
        self.run = run
        self.incarnation = 0
        self.sent: dict[int, int] = {}  # by incarnation
        self.undelivered: dict[int, int] = {}  # by incarnation
        self.refused = 0
        self.connecting = False
        self.driver = self._new_driver()

    def _new_driver(self) -> Link:
        self.incarnation += 1
        self.sent[self.incarnation] = 0
        self.undelivered[self.incarnation] = 0
        p2p = P2PLayer(
            incarnation=self.incarnation,
            window_bytes=WINDOW,
            send_buffer_bytes=SEND_BUFFER,
            keepalive=1.0,
            liveness=3.0,
            ack_delay=0.02,
            ack_every=8,
        )
        layers = [*self.run.faults(), p2p]
        self.stack = StackDriver(layers, self.run.clock, self, on_error=self.run.errors.append)
        return self.stack.join("peer")

    @property
    def core(self) -> P2PCore:
        return cast(P2PCore, self.driver.cores[-1])

    def send(self, count: int) -> None:
        """Send a batch of messages, some very small and some very large."""
        random = self.run.random
        batch = []
        for place in range(count):
            large = random.random() < 0.02
            size = random.randrange(LARGEST) if large else random.randrange(200)
            mark = MARK.pack(self.number, self.incarnation, self.sent[self.incarnation] + place + 1)
            batch.append(mark + bytes(size))
        try:
            self.driver.send(batch)
        except Overloaded:
            self.refused += 1
        else:
            self.sent[self.incarnation] += count

    def restart(self) -> None:
        """The core's state is lost."""
        self.driver.abort(Overloaded("the process died"))
        self.stack.receiver = None
        self.driver = self._new_driver()

    def messages_received(self, peer: object, messages: Sequence[bytes]) -> None:
        for message in messages:
            number, incarnation, index = MARK.unpack_from(message)
            assert number == 1 - self.number
            self.run.deliveries.append((number, incarnation, index, self.incarnation))
        driver = self.driver
        if self.run.random.random() < 0.3:
            driver.consumed(len(messages))
        else:
            self.run.clock.callLater(
                self.run.random.uniform(0, 0.5), driver.consumed, len(messages)
            )
        if self.run.random.random() < 0.2:
            self.send(1)  # from inside a callback
        unconsumed = self.core.receiver.unconsumed
        assert unconsumed * MESSAGE_COST <= WINDOW + LARGEST + 2 * MESSAGE_COST

    def view_changed(self, peer: object, view: View) -> None:
        if view.state is LinkState.CONNECTED:
            self.undelivered[self.incarnation] += view.undelivered
            assert not (view.resumed and view.undelivered)
        else:
            self.connect_soon()

    def writable_changed(self, peer: object, writable: bool) -> None:
        assert writable is self.driver.is_writable

    def listen(self) -> None:
        """The second end is the server."""
        if self.number == 1:
            self.run.network.listen("server", lambda channel: self.driver.attach(channel))

    def connect_soon(self) -> None:
        """The first end is the client."""
        if self.number == 0:
            self.run.clock.callLater(0.1, self.connect)

    def connect(self) -> None:
        """Make a connection, unless there is one or one is being made."""
        if self.run.stopped or self.driver.is_attached or self.connecting:
            return
        self.connecting = True
        self.run.network.connect("server").addCallbacks(self._connected, self._refused)

    def _connected(self, channel: ISocketChannel) -> None:
        self.connecting = False
        self.driver.attach(channel)
        if self.run.stopped:
            self.driver.close()

    def _refused(self, _: Failure) -> None:
        self.connecting = False
        self.connect_soon()


class Run:
    addresses: tuple[str, ...] = ("server",)

    def __init__(self, seed: int, make_end: Callable[[int, Run], End] = End) -> None:
        self.random = Random(seed)
        self.clock = Clock()
        self.network = MemoryNetwork(self.clock, seed, latency=0.005, jitter=0.01)
        self.deliveries: list[tuple[int, int, int, int]] = []
        self.errors: list[Exception] = []
        self.stopped = False
        self.kind = self.random.randrange(9)
        self.restarts = 0
        self.ends = (make_end(0, self), make_end(1, self))
        for end in self.ends:
            end.listen()

    def faults(self) -> list[ILayer]:
        seed = self.random.randrange(2**32)
        rate = 0.03
        table: list[list[ILayer]] = [
            [],
            [DiscardLayer(seed=seed, rate=rate)],
            [DuplicateLayer(seed=seed, rate=0.1)],
            [ShuffleLayer(seed=seed, rate=rate)],
            [CorruptLayer(seed=seed, rate=rate)],
            [DelayLayer(seed=seed, minimum=0.0, maximum=0.1, capacity=20)],
            [ThrottleLayer(bytes_per_second=20_000, queue_bytes=10_000)],
            [PartitionLayer(schedule=[(0.5, 1.5), (2.0, 6.0)])],
            [DiscardLayer(seed=seed, rate=0.01), ShuffleLayer(seed=seed + 1, rate=0.01)],
        ]
        return table[self.kind]

    def step(self) -> None:
        choice = self.random.random()
        end = self.ends[self.random.randrange(2)]
        if choice < 0.75:
            end.send(self.random.choice((1, 1, 3, 10)))
        elif choice < 0.85:
            self.network.cut(self.random.choice(self.addresses))
        elif choice < 0.88:
            end.restart()
            self.restarts += 1
            for each in self.ends:
                each.connect_soon()
        elif choice < 0.94:
            self.network.refuse(self.random.choice(self.addresses))
        else:
            self.network.heal(self.random.choice(self.addresses))
        for each in self.ends:
            assert each.core.sender.buffered <= SEND_BUFFER

    def advance(self, seconds: float) -> None:
        """Advance virtual time, from call to call."""
        end = self.clock.seconds() + seconds
        while self.clock.calls and self.clock.calls[0].getTime() <= end:
            self.clock.rightNow = self.clock.calls[0].getTime()
            self.clock.advance(0)
        self.clock.rightNow = end

    def play(self) -> None:
        for end in self.ends:
            end.connect_soon()
        for _ in range(40):
            self.step()
            self.advance(self.random.choice((0.0, 0.01, 0.05, 0.3)))
        for address in self.addresses:
            self.network.heal(address)
        for _ in range(600):
            if not any(len(end.core.sender) for end in self.ends):
                break
            self.advance(1.0)
        assert not any(len(end.core.sender) for end in self.ends), "not everything arrived"
        self.settled()
        self.stopped = True
        for end in self.ends:
            end.driver.close()
        self.advance(1.0)
        assert self.clock.getDelayedCalls() == []
        assert self.errors == []
        for end in self.ends:
            self.check(end)

    def settled(self) -> None:
        """Return True if everything has arrived, and the network is whole."""

    def check(self, end: End) -> None:
        """Compare the messages sent by `end` with the delivered ones."""
        for incarnation, sent in end.sent.items():
            mine = [each for each in self.deliveries if each[:2] == (end.number, incarnation)]
            indices = [index for _, _, index, _ in mine]
            assert indices == sorted(set(indices)), "twice, or out of order"
            for life in {to for _, _, _, to in mine}:
                told = [index for _, _, index, to in mine if to == life]
                assert told == list(range(told[0], told[0] + len(told))), "a hole"
            if incarnation == end.incarnation:
                assert sent - len(mine) <= end.undelivered[incarnation], "lost in silence"
            if not self.restarts:
                assert indices == list(range(1, sent + 1))
                assert end.undelivered[incarnation] == 0
