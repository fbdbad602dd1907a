"""Simulation of sites over one link stack, with failing links and restarts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from functools import partial
from itertools import combinations
from random import Random
from typing import NamedTuple

from twisted.internet.task import Clock
from zope.interface import implementer

from broker.errors import Closed
from broker.testing.datagram_network import DatagramFaults, DatagramNetwork
from broker.testing.memory_group import MemoryGroupChannel
from broker.testing.memory_network import MemoryNetwork
from broker.transport.driver import StackDriver
from broker.transport.layer import ILayer
from broker.transport.message import Message, Outcome, Peer
from broker.transport.multicast import GROUP
from broker.transport.socket import ISocketChannel
from broker.transport.socket.contract import TCP_PROPERTIES
from broker.transport.stack import Stack
from broker.transport.stack_receiver import IStackReceiver
from broker.transport.stacks import IFanOutStack, IProtocolStack, StackSettings
from broker.transport.view import LinkState, View

#: Seconds from the end of a connection to the next attempt.
_REDIAL = 0.5
#: Of a packet on a connection.
_LENGTH_BYTES = 4


class Received(NamedTuple):
    time: float
    peer: str
    message: bytes


@implementer(IStackReceiver)
class Site:
    """One process. It records what it gets, and consumes at once if `consumes`."""

    def __init__(self, network: FanOutNetwork, name: str, incarnation: int) -> None:
        self.name = name
        self.incarnation = incarnation
        self.is_running = True
        self.consumes = True
        self.errors: list[Exception] = []
        self.received: list[Received] = []
        self.views: list[tuple[float, str, View]] = []
        self.states: dict[str, LinkState] = defaultdict(lambda: LinkState.DISCONNECTED)
        self.sent: dict[str, list[bytes]] = defaultdict(list)
        """Accepted messages by destination."""
        layers = network.make_layers(name, incarnation)
        self.driver = StackDriver(layers, network.clock, self, on_error=self.errors.append)
        self._clock = network.clock

    def send(self, payload: bytes, *names: str) -> dict[Peer, Outcome]:
        message = Message(payload, destinations=names)
        self.driver.send([message])
        for name, outcome in message.outcomes.items():
            if outcome is Outcome.SENT:
                self.sent[str(name)].append(payload)
        return message.outcomes

    def received_from(self, name: str) -> list[bytes]:
        return [each.message for each in self.received if each.peer == name]

    def messages_received(self, peer: Peer, messages: Sequence[bytes]) -> None:
        now = self._clock.seconds()
        self.received += [Received(now, str(peer), each) for each in messages]
        if self.consumes:
            self.driver.consumed(peer, len(messages))

    def view_changed(self, peer: Peer, view: View) -> None:
        self.views.append((self._clock.seconds(), str(peer), view))
        self.states[str(peer)] = view.state

    def writable_changed(self, peer: Peer, writable: bool) -> None:
        """Ignored: outcomes show it."""


class FanOutNetwork:
    """All sites are linked to each other; the smaller name dials.

    `sent_bytes` counts those of each site's connections, and of its datagrams to the group.
    """

    def __init__(
        self,
        stack: IProtocolStack,
        options: object,
        names: Sequence[str],
        *,
        seed: int = 0,
        latency: float = 0.005,
        datagram_loss: float = 0.0,
    ) -> None:
        self.clock = Clock()
        self.random = Random(seed)
        self.wires = MemoryNetwork(self.clock, seed, latency=latency, jitter=latency / 2)
        faults = DatagramFaults(loss=datagram_loss, delay=latency, jitter=latency / 2)
        self.datagrams = DatagramNetwork(self.clock, seed, faults)
        self.sent_bytes: Counter[str] = Counter()
        self.sites: dict[str, Site] = {}
        self._stack = stack
        self._options = options
        self._names = tuple(names)
        self._channels: dict[str, MemoryGroupChannel] = {}
        for one, other in combinations(sorted(names), 2):
            self.wires.listen(self.pair(one, other), partial(self._attach, other, one))
        for name in names:
            self.start(name)
        for one, other in combinations(sorted(names), 2):
            self._dial(one, other)
        self.run(1.0)

    @staticmethod
    def pair(one: str, other: str) -> str:
        return " - ".join(sorted((one, other)))

    def make_layers(self, name: str, incarnation: int) -> Sequence[ILayer]:
        settings = StackSettings(incarnation=incarnation, node=name, options=self._options)
        return self._stack.layers(settings)

    def start(self, name: str) -> Site:
        """Start a process with the next incarnation."""
        before = self.sites.get(name)
        site = Site(self, name, 1 if before is None else before.incarnation + 1)
        self.sites[name] = site
        for other in self._names:
            if other != name:
                layers = self.make_layers(name, site.incarnation)
                site.driver.join(other, Stack(self._stack.name, layers, TCP_PROPERTIES))
        if IFanOutStack.providedBy(self._stack) and self._stack.group_of(self._options) is not None:
            self._join_group(site)
        return site

    def _join_group(self, site: Site) -> None:
        member: Hashable = GROUP, site.name
        channel = self._channels[site.name] = MemoryGroupChannel(self.datagrams, GROUP, member)
        self._count_bytes(site.name, channel, 0)
        site.driver.join_group(channel)

    def kill(self, name: str) -> None:
        site = self.sites[name]
        site.is_running = False
        for peer in list(site.driver.links):
            site.driver.remove(peer, Closed("the process is killed"))

    def silence(self, one: str, other: str) -> None:
        """Let nothing of one site reach the other, until `end_silence`."""
        self.wires.hold(self.pair(one, other), to_listener=one < other)
        self._cut_datagrams()

    def end_silence(self, one: str, other: str) -> None:
        self.wires.release(self.pair(one, other), to_listener=one < other)
        self._cut_datagrams()

    def part(self, one: str, other: str) -> None:
        """Silence both directions."""
        self.silence(one, other)
        self.silence(other, one)

    def unite(self, one: str, other: str) -> None:
        self.end_silence(one, other)
        self.end_silence(other, one)

    def cut(self, one: str, other: str) -> None:
        """Break the connection of a pair; what is in transit is lost."""
        self.wires.cut(self.pair(one, other))

    def run(self, seconds: float) -> None:
        end = self.clock.seconds() + seconds
        while self.clock.calls and self.clock.calls[0].getTime() <= end:
            self.clock.rightNow = self.clock.calls[0].getTime()
            self.clock.advance(0)
        self.clock.rightNow = end

    def _cut_datagrams(self) -> None:
        self.datagrams.heal()
        for one, other in combinations(self._names, 2):
            if self.wires.is_silent(self.pair(one, other)):
                self.datagrams.cut((GROUP, one), (GROUP, other))

    def _dial(self, one: str, other: str) -> None:
        """Connect a pair if it is not connected, and so on."""
        again = partial(self.clock.callLater, _REDIAL, self._dial, one, other)
        site = self.sites[one]
        link = site.driver.links.get(other)
        if link is None or link.is_attached:
            again()
            return

        def connected(channel: ISocketChannel) -> None:
            self._attach(one, other, channel)
            again()

        self.wires.connect(self.pair(one, other)).addCallbacks(connected, lambda _: again())

    def _attach(self, name: str, peer: str, channel: ISocketChannel) -> None:
        site = self.sites.get(name)
        if site is None or not site.is_running:
            channel.abort(Closed("the process is dead"))
            return
        self._count_bytes(name, channel, _LENGTH_BYTES)
        site.driver.attach(peer, channel)
        channel.resume()

    def _count_bytes(self, name: str, channel: ISocketChannel, overhead: int) -> None:
        send = channel.send

        def count(packets: Sequence[bytes]) -> None:
            self.sent_bytes[name] += sum(map(len, packets)) + overhead * len(packets)
            send(packets)

        channel.send = count  # type: ignore[method-assign]
