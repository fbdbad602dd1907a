"""A stream transport in virtual time that delays batches, or loses them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.plugin import IPlugin
from zope.interface import implementer

from broker.config.stacks import Plugins, StackInstance
from broker.event.place import Mark
from broker.streams.contract import (
    CarriedEvent,
    CarriedInterest,
    FlowBatch,
    Guarantee,
    IAnnotatingTransport,
    IStreamTransport,
    ITransportContext,
    ITransportPlugin,
)
from broker.testing.datagram_network import DatagramFaults
from broker.testing.simulated_network import NetworkWorld
from broker.testing.transport_case import TransportCase
from broker.testing.transport_contract import TransportContract


@attrs.frozen
class NoOptions:
    """None."""


@implementer(IPlugin, ITransportPlugin)
class OtherTransport:
    """Carries the flows of all nodes, late, and not at all where `loses` returns True."""

    name: ClassVar[str] = "other"
    version: ClassVar[int] = 1
    summary: ClassVar[str] = "for simulations"
    options: ClassVar[type] = NoOptions
    guarantees: ClassVar[frozenset[Guarantee]] = frozenset()
    links: ClassVar[str] = ""

    def __init__(
        self,
        world: NetworkWorld,
        delay: float = 2.0,
        loses: Callable[[int], bool] = lambda _: False,
    ) -> None:
        self.delay = delay
        self.loses = loses
        self.batches = 0
        self.recovered = 0
        """Events of pages."""
        self.requests_feed = False
        self.annotate: Callable[[CarriedEvent], bytes] | None = None
        """Annotation of an own event, in nodes that are started later."""
        self.annotate_received: Callable[[CarriedEvent], bytes] = lambda event: event.annotation
        self.forge: Callable[[CarriedEvent], CarriedEvent] = lambda event: event
        """Changes an event on its way."""
        self.recovered_annotations: list[tuple[Mark, bytes]] = []
        self.ends: dict[str, OtherEnd] = {}
        self.world = world
        world.plugins[self.name] = self, None

    def create(self, context: ITransportContext) -> OtherEnd:
        kind = OtherEnd if self.annotate is None else AnnotatingEnd
        end = self.ends[context.node] = kind(self, context)
        return end

    def set_patterns(self, name: str, *patterns: str) -> None:
        """Let this transport carry exactly these patterns, from the node's next start on."""
        self.world.set_stacks(name, dict.fromkeys(patterns, StackInstance(self.name)))
        if not patterns:
            self.ends.pop(name, None)


@implementer(IStreamTransport)
class OtherEnd:
    def __init__(self, transport: OtherTransport, context: ITransportContext) -> None:
        self._transport = transport
        self._context = context

    def listen(self) -> None:
        if self._transport.requests_feed:
            self._context.request_feed()

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
        transport.batches += 1
        if transport.loses(transport.batches):
            return
        for name in transport.world.running:
            if name != self._context.node and name in transport.ends:
                transport.world.clock.callLater(transport.delay, self._deliver, name, batch)

    def _deliver(self, name: str, batch: FlowBatch) -> None:
        if name in self._transport.world.running and name in self._transport.ends:
            annotate = self._transport.annotate_received
            forge = self._transport.forge
            events = [forge(event.with_annotation(annotate(event))) for event in batch.events]
            self._transport.ends[name]._context.receive(attrs.evolve(batch, events=events))

    def recovered(self, batch: FlowBatch) -> None:
        self._transport.recovered += len(batch.events)
        self._transport.recovered_annotations += [
            (event.mark, event.annotation) for event in batch.events
        ]

    def snapshot(self) -> Mapping[str, object]:
        return {"peers": sorted(self._transport.ends)}


@implementer(IAnnotatingTransport)
class AnnotatingEnd(OtherEnd):
    def annotate(self, events: Sequence[CarriedEvent]) -> Sequence[bytes]:
        annotate = self._transport.annotate
        assert annotate is not None
        return [annotate(event) for event in events]


def own_annotation(event: CarriedEvent) -> bytes:
    epoch, offset = event.mark
    return f"own {epoch}:{offset}".encode()


def received_annotation(event: CarriedEvent) -> bytes:
    return event.annotation + b", received"


class AnnotatingTransport(OtherTransport):
    """Annotates own events."""

    def __init__(
        self,
        world: NetworkWorld,
        delay: float = 0.02,
        loses: Callable[[int], bool] = lambda _: False,
    ) -> None:
        super().__init__(world, delay, loses)
        self.annotate = own_annotation


class ReannotatingTransport(AnnotatingTransport):
    """Annotates received events too."""

    def __init__(
        self,
        world: NetworkWorld,
        delay: float = 0.02,
        loses: Callable[[int], bool] = lambda _: False,
    ) -> None:
        super().__init__(world, delay, loses)
        self.annotate_received = received_annotation


class OtherTransportCase(TransportCase):
    transport: ClassVar[type[OtherTransport]] = OtherTransport
    _made: OtherTransport

    def create_plugins(self, world: NetworkWorld) -> Plugins:
        self._made = self.transport(world, 0.01)
        return self._made, None

    def set_faults(self, world: NetworkWorld, faults: DatagramFaults) -> None:
        self._made.delay = faults.delay
        self._made.loses = lambda _: world.random.random() < faults.loss


class OtherTransportContract(OtherTransportCase, TransportContract):
    """The whole suite."""
