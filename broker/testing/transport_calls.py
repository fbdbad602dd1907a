"""The calls between nodes and their instances of one transport, recorded or held back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import cast

import attrs

from broker.config.stacks import Plugins
from broker.event.flow import origin_of
from broker.event.place import Mark
from broker.streams.contract import (
    CarriedEvent,
    FlowBatch,
    IAnnotatingTransport,
    IOrderingTransport,
    IStreamTransport,
    ITransportContext,
    ITransportPlugin,
)
from broker.testing.wrapped_transport import Wrapped

#: Origin and mark.
EventPlace = tuple[str, Mark]


@attrs.define
class NodeCalls:
    """Calls in one node, of all its processes."""

    annotated: dict[Mark, bytes] = attrs.field(factory=dict)
    """Annotations of own events."""
    arrived: dict[EventPlace, set[bytes]] = attrs.field(factory=lambda: defaultdict(set))
    """Annotations with which the events of other nodes were received or recovered."""
    delivered: dict[EventPlace, set[bytes]] = attrs.field(factory=lambda: defaultdict(set))
    """Annotations that an ordering transport gave to the events that it delivered."""
    recovered: set[EventPlace] = attrs.field(factory=set)
    has_received: bool = False
    """True if the transport has passed on a batch."""
    is_fed: bool = False
    """True if the present process has requested a feed, and gets it."""
    is_annotating: bool = False
    orders: bool = False
    """True if the transport decides when events are delivered."""
    is_holding: bool = False
    """Batches for `receive`, or for `deliver` of an ordering transport, are held back."""
    _context: ITransportContext | None = None
    _held: list[FlowBatch] = attrs.field(factory=list)

    def start(self, context: ITransportContext) -> None:
        """Begin with another process: what was held back is lost."""
        self._context = context
        self.is_fed = self.is_holding = False
        self._held.clear()

    def receive(self, batch: FlowBatch) -> None:
        assert self._context is not None
        self.has_received = True
        if self.is_holding and not self.orders:
            self._held.append(batch)
            return
        self._record(batch)
        self._context.receive(batch)

    def deliver(self, batch: FlowBatch) -> None:
        assert self._context is not None
        if self.is_holding:
            self._held.append(batch)
            return
        self.record_delivered(batch.flow, batch.events)
        self._context.deliver(batch)

    def record_delivered(self, flow: str, events: Sequence[CarriedEvent]) -> None:
        for event in events:
            self.delivered[origin_of(flow), event.mark].add(event.annotation)

    def recover(self, batch: FlowBatch) -> None:
        self._record(batch)
        self.recovered |= {(origin_of(batch.flow), event.mark) for event in batch.events}

    def _record(self, batch: FlowBatch) -> None:
        for event in batch.events:
            self.arrived[origin_of(batch.flow), event.mark].add(event.annotation)

    def release(self) -> None:
        """Hand over what was held back, in order."""
        self.is_holding = False
        held, self._held = self._held, []
        for batch in held:
            (self.deliver if self.orders else self.receive)(batch)


class TransportCalls(defaultdict[str, NodeCalls]):
    """Calls by the name of the node."""

    def __init__(self) -> None:
        super().__init__(NodeCalls)

    def wrap(self, plugins: Plugins) -> Plugins:
        """Return plug-ins whose transports are recorded."""
        plugin, links = plugins

        def create(context: ITransportContext) -> IStreamTransport:
            calls = self[context.node]
            calls.start(context)

            def request_feed() -> bool:
                calls.is_fed = context.request_feed()
                return calls.is_fed

            def annotate(events: Sequence[CarriedEvent]) -> Sequence[bytes]:
                given = cast(IAnnotatingTransport, transport).annotate(events)
                marks = [event.mark for event in events]
                calls.annotated.update(zip(marks, given, strict=True))
                return given

            def recovered(batch: FlowBatch) -> None:
                calls.recover(batch)
                transport.recovered(batch)

            def order(batch: FlowBatch, is_recovered: bool) -> None:
                if is_recovered:
                    calls.recover(batch)
                cast(IOrderingTransport, transport).order(batch, is_recovered)

            def place(batch: FlowBatch, is_recovered: bool) -> Sequence[bytes]:
                calls.recover(batch)
                given = cast(IOrderingTransport, transport).place(batch, is_recovered)
                pairs = zip(batch.events, given, strict=True)
                placed = [event.with_annotation(each) for event, each in pairs]
                calls.record_delivered(batch.flow, placed)
                return given

            wrapped = Wrapped(
                context, receive=calls.receive, deliver=calls.deliver, request_feed=request_feed
            )
            transport = plugin.create(cast(ITransportContext, wrapped))
            calls.is_annotating = bool(IAnnotatingTransport.providedBy(transport))
            calls.orders = bool(IOrderingTransport.providedBy(transport))
            recording = Wrapped(
                transport, annotate=annotate, recovered=recovered, order=order, place=place
            )
            return cast(IStreamTransport, recording)

        return cast(ITransportPlugin, Wrapped(plugin, create=create)), links

    def hold(self, *names: str) -> None:
        """Hold back the batches that nodes receive, and the own events that they withhold."""
        for name in names:
            self[name].is_holding = True

    def release(self) -> None:
        for calls in self.values():
            calls.release()
