"""Ends of one stack in virtual time, each with a link to every other, over memory channels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from itertools import combinations
from random import Random
from typing import Protocol, TypeAlias, cast

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface import implementer

from broker.errors import NotConnected
from broker.testing.datagram_network import DatagramFaults, DatagramNetwork
from broker.testing.memory_network import MemoryNetwork
from broker.transport.arq import ArqSettings
from broker.transport.arq.connection_endpoint import ConnectionEndpoint
from broker.transport.clock import IClock
from broker.transport.driver import Link, StackDriver
from broker.transport.layer import ILayer
from broker.transport.message import Message, Outcome, Peer
from broker.transport.socket import DEFAULT_MAX_FRAME, ISocketChannel
from broker.transport.socket.datagram_port import DatagramPort
from broker.transport.stack import Stack
from broker.transport.stack_receiver import IStackReceiver
from broker.transport.stacks import IProtocolStack, StackSettings, Transport, build_stack
from broker.transport.view import LinkState, View

#: Seconds from the end of a connection to the next attempt.
REDIAL = 0.1

#: Makes the fault layers of one link from a seed.
MakeFaults: TypeAlias = Callable[[int], Sequence[ILayer]]
OnChannel: TypeAlias = Callable[[ISocketChannel], None]


@implementer(IStackReceiver)
class StackEnd:
    """End with a user that records all, and consumes at once if `consumes`."""

    def __init__(self, name: str, stack: Stack, clock: IClock) -> None:
        self.name = name
        self.errors: list[Exception] = []
        self.driver = StackDriver(
            stack.layers, clock, self, stack.bottom, on_error=self.errors.append
        )
        self.consumes = True
        #: Accepted messages by destination.
        self.sent: dict[Peer, list[bytes]] = defaultdict(list)
        #: Sources and messages, in order.
        self.deliveries: list[tuple[Peer, bytes]] = []
        self.received: dict[Peer, list[bytes]] = defaultdict(list)
        self.views: dict[Peer, list[View]] = defaultdict(list)
        self.on_change: Callable[[], object] = lambda: None
        self.on_view: Callable[[StackEnd, Peer, View], object] = lambda end, peer, view: None

    def link(self, peer: StackEnd) -> Link:
        return self.driver.links[peer.name]

    def send(self, payload: bytes, *peers: StackEnd) -> dict[Peer, Outcome]:
        message = Message(payload, destinations=tuple(peer.name for peer in peers))
        self.driver.send([message])
        for name, outcome in message.outcomes.items():
            if outcome is Outcome.SENT:
                self.sent[name].append(payload)
        return message.outcomes

    def received_from(self, peer: StackEnd) -> list[bytes]:
        return self.received[peer.name]

    def state_of(self, peer: StackEnd) -> LinkState:
        views = self.views[peer.name]
        return views[-1].state if views else LinkState.DISCONNECTED

    def messages_received(self, peer: Peer, messages: Sequence[bytes]) -> None:
        self.deliveries += [(peer, message) for message in messages]
        self.received[peer] += messages
        if self.consumes:
            self.driver.consumed(peer, len(messages))
        self.on_change()

    def view_changed(self, peer: Peer, view: View) -> None:
        self.views[peer].append(view)
        self.on_view(self, peer, view)
        self.on_change()

    def writable_changed(self, peer: Peer, writable: bool) -> None:
        self.on_change()


class Wires(Protocol):
    """A network with one address for each pair of ends."""

    def listen(self, pair: str, on_connect: OnChannel) -> None:
        """Accept connections of the pair."""

    def connect(self, pair: str) -> Deferred[ISocketChannel]:
        """Connect to the end that listens."""


class MemoryWires:
    def __init__(self, clock: Clock, seed: int) -> None:
        self.network = MemoryNetwork(clock, seed, latency=0.005, jitter=0.005)

    def listen(self, pair: str, on_connect: OnChannel) -> None:
        self.network.listen(pair, on_connect)

    def connect(self, pair: str) -> Deferred[ISocketChannel]:
        return self.network.connect(pair)


class DatagramWires:
    """Each end of a pair has a port; datagrams are lost, repeated and reordered."""

    def __init__(self, clock: Clock, seed: int) -> None:
        faults = DatagramFaults(loss=0.02, duplication=0.02, delay=0.005, jitter=0.01)
        self._clock = clock
        self._network = DatagramNetwork(clock, seed, faults)

    def listen(self, pair: str, on_connect: OnChannel) -> None:
        self._bind(("listener", pair), on_connect)

    def connect(self, pair: str) -> Deferred[ISocketChannel]:
        endpoint = self._bind(("dialler", pair), lambda channel: None)
        return endpoint.connect(("listener", pair))

    def _bind(self, address: Hashable, on_connect: OnChannel) -> ConnectionEndpoint:
        endpoints: list[ConnectionEndpoint] = []

        def receive(batch: Sequence[tuple[bytes, Hashable]]) -> None:
            for endpoint in endpoints:
                endpoint.datagrams_received(batch)

        bound = self._network.bind(address, receive)
        entropy = Random(repr(address)).randbytes
        endpoint = ConnectionEndpoint(
            self._clock, bound, on_connect, ArqSettings(), entropy, DEFAULT_MAX_FRAME
        )
        endpoints.append(endpoint)
        return endpoint


class RawWires:
    """Raw datagrams: each end of a pair has a port, and a channel to the other."""

    def __init__(self, clock: Clock, seed: int, name: str) -> None:
        faults = DatagramFaults(loss=0.02, duplication=0.02, delay=0.005, jitter=0.01)
        self.network = DatagramNetwork(clock, seed, faults)
        self._name = name
        self._ports: dict[tuple[str, str], DatagramPort] = {}
        self._on_connect: dict[str, OnChannel] = {}

    def listen(self, pair: str, on_connect: OnChannel) -> None:
        self._on_connect[pair] = on_connect
        for role in ("dialler", "listener"):
            users = self.network.share((role, pair))
            self._ports[role, pair] = users.open_port(self._name)

    def connect(self, pair: str) -> Deferred[ISocketChannel]:
        # Neither end learns of a channel of the other.
        self._on_connect[pair](self._ports["listener", pair].connect(("dialler", pair)))
        return succeed(self._ports["dialler", pair].connect(("listener", pair)))


def base_transport(stack: IProtocolStack) -> Transport:
    """Return the transport of most tests: TCP if the stack supports it."""
    supported = sorted(stack.transports, key=lambda each: each is not Transport.TCP)
    return supported[0]


def build(
    stack: IProtocolStack,
    options: object,
    incarnation: int = 1,
    transport: Transport | None = None,
    suspect: float = 0.0,
    faults: Sequence[ILayer] = (),
    node: str = "",
) -> Stack:
    settings = StackSettings(
        node=node,
        incarnation=incarnation,
        transport=transport or base_transport(stack),
        suspect=suspect,
        options=options,
    )
    return build_stack(stack, settings, faults=faults)


def make_wires(transport: Transport, clock: Clock, seed: int, name: str) -> Wires:
    if transport is Transport.TCP:
        return MemoryWires(clock, seed)
    if transport is Transport.DATAGRAM:
        return RawWires(clock, seed, name)
    return DatagramWires(clock, seed)


class StackNetwork:
    """All ends are connected, and connect again after a loss. The seed decides the faults."""

    def __init__(
        self,
        stack: IProtocolStack,
        options: object,
        *,
        count: int = 2,
        seed: int = 0,
        transport: Transport | None = None,
        suspect: float = 0.0,
        make_faults: MakeFaults = lambda seed: (),
    ) -> None:
        self.clock = Clock()
        self.random = Random(seed)
        transport = transport or base_transport(stack)
        self.wires = make_wires(transport, self.clock, seed, stack.name)
        #: Counts connections that were broken.
        self.cuts = 0
        self._is_stopped = False
        self._dialling: set[str] = set()
        self._build = partial(build, stack, options, transport=transport, suspect=suspect)
        self._make_faults = make_faults
        # What a stack provides depends on the faults below it.
        self.provides = self._build(faults=make_faults(seed)).provides
        names = [f"end {number}" for number in range(count)]
        self.ends = [StackEnd(name, self._build(node=name), self.clock) for name in names]
        self._by_name = {end.name: end for end in self.ends}
        for end in self.ends:
            end.on_view = self._redial
        for one, other in combinations(self.ends, 2):
            self.join(one, other)
            self.join(other, one)
            self.wires.listen(self.pair(one, other), partial(self._attach, other, one))
            self.connect(one, other)
        self.run(1.0)

    @staticmethod
    def pair(one: StackEnd, other: StackEnd) -> str:
        return " - ".join(sorted((one.name, other.name)))

    def join(self, end: StackEnd, peer: StackEnd) -> None:
        seed = self.random.randrange(1, 2**32)
        stack = self._build(incarnation=seed, faults=self._make_faults(seed))
        end.driver.join(peer.name, stack)

    def connect(self, one: StackEnd, other: StackEnd) -> None:
        """Connect a pair, unless it is connected or on the way; the first end dials."""
        one, other = sorted((one, other), key=lambda end: end.name)
        pair = self.pair(one, other)
        link = one.driver.links.get(other.name)
        if self._is_stopped or pair in self._dialling or link is None or link.is_attached:
            return
        self._dialling.add(pair)

        def connected(channel: ISocketChannel) -> None:
            self._dialling.discard(pair)
            self._attach(one, other, channel)

        def failed(_: Failure) -> None:
            self._dialling.discard(pair)
            self.clock.callLater(REDIAL, self.connect, one, other)

        self.wires.connect(pair).addCallbacks(connected, failed)

    def cut(self, one: StackEnd, other: StackEnd) -> None:
        """Break the connection of a pair: what is in transit is lost."""
        self.cuts += 1
        if isinstance(self.wires, MemoryWires):
            self.wires.network.cut(self.pair(one, other))
        else:
            one.driver.abort(other.name, NotConnected("the network broke"))

    def run(self, seconds: float) -> None:
        """Advance virtual time, from call to call."""
        end = self.clock.seconds() + seconds
        while self.clock.calls and self.clock.calls[0].getTime() <= end:
            self.clock.rightNow = self.clock.calls[0].getTime()
            self.clock.advance(0)
        self.clock.rightNow = end

    def run_until(self, condition: Callable[[], bool], limit: float = 60.0) -> bool:
        """Return False if `condition` does not hold within so many seconds."""
        until = self.clock.seconds() + limit
        while not condition():
            if self.clock.seconds() >= until:
                return False
            self.run(0.1)
        return True

    def has_all_arrived(self) -> bool:
        return all(
            len(other.received_from(one)) >= len(one.sent[other.name])
            for one in self.ends
            for other in self.ends
        )

    def close(self) -> None:
        """Close all connections for good."""
        self._is_stopped = True
        for end in self.ends:
            for peer in list(end.driver.links):
                end.driver.close(peer)
        self.run(1.0)

    def _attach(self, end: StackEnd, peer: StackEnd, channel: ISocketChannel) -> None:
        link = end.driver.links.get(peer.name)
        if link is None or link.failure is not None:
            channel.abort(NotConnected("the peer is not known here"))
            return
        end.driver.attach(peer.name, channel)
        channel.resume()

    def _redial(self, end: StackEnd, peer: Peer, view: View) -> None:
        if view.state is not LinkState.CONNECTED and not self._is_stopped:
            other = self._by_name[cast(str, peer)]
            self.clock.callLater(REDIAL, self.connect, end, other)
