"""A stream transport in virtual time whose sequencer decides one order for all nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from twisted.internet.defer import Deferred, succeed
from twisted.plugin import IPlugin
from zope.interface import implementer

from broker.config.stacks import Plugins, StackInstance
from broker.streams.contract import (
    CarriedInterest,
    FlowBatch,
    Guarantee,
    IStreamTransport,
    ITransportContext,
    ITransportPlugin,
)
from broker.testing.datagram_network import DatagramFaults
from broker.testing.one_order_contract import OneOrderContract
from broker.testing.simulated_network import NetworkWorld
from broker.testing.transport_contract import TransportContract
from tests.simulation.network.other_transport import NoOptions


@implementer(IPlugin, ITransportPlugin)
class OrderingTransport:
    """Batches reach the sequencer late, and the nodes later, out of order.

    A node passes them on in the sequencer's order. The sequencer loses a batch if `loses` returns
    True for its number.
    """

    name: ClassVar[str] = "ordering"
    version: ClassVar[int] = 1
    summary: ClassVar[str] = "for simulations"
    options: ClassVar[type] = NoOptions
    guarantees: ClassVar[frozenset[Guarantee]] = frozenset({Guarantee.ONE_ORDER})
    links: ClassVar[str] = ""

    def __init__(
        self,
        world: NetworkWorld,
        delay: float = 0.2,
        loses: Callable[[int], bool] = lambda _: False,
    ) -> None:
        self.world = world
        self.delay = delay
        """Longest delay to the sequencer, and from it to a node."""
        self.loses = loses
        self.published = 0
        """Batches."""
        self.order: list[FlowBatch] = []
        self.end = OrderingEnd
        """Class of `ends`."""
        self.ends: dict[str, OrderingEnd] = {}
        world.plugins[self.name] = self, None

    def create(self, context: ITransportContext) -> OrderingEnd:
        end = self.ends[context.node] = self.end(self, context)
        return end

    def set_patterns(self, name: str, *patterns: str) -> None:
        """Let this transport carry exactly these patterns, from the node's next start on."""
        self.world.set_stacks(name, dict.fromkeys(patterns, StackInstance(self.name)))

    def add_batch(self, batch: FlowBatch) -> None:
        number = len(self.order)
        self.order.append(batch)
        for end in list(self.ends.values()):
            wait = self.world.random.uniform(0.0, self.delay)
            self.world.clock.callLater(wait, end.take, number, batch)


@implementer(IStreamTransport)
class OrderingEnd:
    def __init__(self, transport: OrderingTransport, context: ITransportContext) -> None:
        self._transport = transport
        self.context = context
        self._next = len(transport.order)
        self._early: dict[int, FlowBatch] = {}
        self._sent_upto = 0.0
        self.recovered_events = 0
        self.is_deaf = False
        """Passes nothing on."""

    def listen(self) -> None:
        """Do nothing."""

    def start(self) -> None:
        """Do nothing."""

    def stop(self) -> Deferred[None]:
        return succeed(None)

    def announce(self, key: str, interest: CarriedInterest) -> None:
        """Do nothing: all batches go to all nodes."""

    def withdraw(self, key: str) -> None:
        """Do nothing."""

    def publish(self, batch: FlowBatch) -> None:
        transport = self._transport
        transport.published += 1
        if transport.loses(transport.published):
            return
        # Batches of a node do not overtake each other.
        now = transport.world.clock.seconds()
        at = max(self._sent_upto, now + transport.world.random.uniform(0.0, transport.delay))
        self._sent_upto = at
        transport.world.clock.callLater(at - now, transport.add_batch, batch)

    def take(self, number: int, batch: FlowBatch) -> None:
        transport, node = self._transport, self.context.node
        if transport.ends.get(node) is not self or node not in transport.world.running:
            return
        self._early[number] = batch
        while self._next in self._early:
            passed = self._early.pop(self._next)
            self._next += 1
            if not self.is_deaf:
                self.pass_on(passed)

    def pass_on(self, batch: FlowBatch) -> None:
        self.context.receive(batch)

    def recovered(self, batch: FlowBatch) -> None:
        self.recovered_events += len(batch.events)

    def snapshot(self) -> Mapping[str, object]:
        return {"peers": sorted(self._transport.ends)}


class OrderingTransportContract(OneOrderContract, TransportContract):
    """The whole suite."""

    end: ClassVar[type[OrderingEnd]] = OrderingEnd
    _made: OrderingTransport

    def create_plugins(self, world: NetworkWorld) -> Plugins:
        self._made = OrderingTransport(world, 0.02)
        self._made.end = self.end
        return self._made, None

    def set_faults(self, world: NetworkWorld, faults: DatagramFaults) -> None:
        self._made.delay = faults.delay + faults.jitter
        self._made.loses = lambda _: world.random.random() < faults.loss
