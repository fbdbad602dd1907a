"""Received ranges of flows whose transport decides when each event is delivered.

A range comes in the order of its flow, behind all earlier ones. The transport gets its events, and
hands them over later, those of one flow in their order. Only then are they logged. A range without
events is logged behind the events before it. Events that the log of their origin does not have any
more are read from other logs and the archive; the flow waits for them. Delivered events whose type
this node lacks wait for it, and later ones of their origin behind them (`type_waits`): the
transport places them anew when they are logged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import NamedTuple, TypeAlias

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from broker.cluster.relay_ingest import MOST_WAITING_BYTES, RelayIngest
from broker.cluster.replicas.page_frame import make_local_frame
from broker.cluster.traffic.frame_range import Range
from broker.cluster.traffic.received_range import AppendRange, ReceivedRange
from broker.cluster.type_waits import TypeWaits
from broker.cluster.withheld_events import ORDER_SECONDS, Place, TakeBack
from broker.errors import BrokerError, LogUnavailable, ProtocolError
from broker.event.flow import pattern_of
from broker.event.place import Mark
from broker.streams.contract import CarriedEvent, FlowBatch

#: Behind lost events of a flow, while these are read.
MOST_LATER_RANGES = 1_000
#: Called with None for each logged part of a range, or with an error.
Settled: TypeAlias = Callable[[BrokerError | None], None]


class FoundPart(NamedTuple):
    """The next part of a range that its origin does not have any more."""

    events: Sequence[CarriedEvent]
    lost_upto: Mark | None
    """Before the events all up to there is missing; None: nothing is."""


#: Yields the parts of a range (after, upto] of a flow. Raises `BrokerError`.
ReadLost: TypeAlias = Callable[[str, Mark, Mark], AsyncIterator[FoundPart]]


@attrs.define
class _Waiting:
    """A range, of which the events up to `cursor` were handed over."""

    received: ReceivedRange
    cursor: Mark
    settled: Settled
    tick: int
    """Count of seconds when it came."""
    events: deque[CarriedEvent] = attrs.field(factory=deque)
    """Those that the transport has."""
    size: int = 0
    """Bytes of their documents."""


class OrderedRanges:
    """The ranges of other nodes that transports order."""

    log = Logger()

    def __init__(self, relay_ingest: RelayIngest) -> None:
        self._relay_ingest = relay_ingest
        self._flows: dict[str, deque[_Waiting]] = {}
        self.waiting_bytes = 0
        self._ticks = 0
        self.type_waits = TypeWaits(self._hand_over, self._drop_waiting)
        self.look_up_types: Callable[[FlowBatch], object] = lambda _: None
        """Begins the look-ups of missing types of events that come."""
        self.orders: Callable[[str], bool] = lambda _: False
        """Returns whether a running transport orders a flow."""
        self.order: Callable[[FlowBatch, bool], object] = lambda *_: None
        """Gives a batch to its transport, with True if it came from a log."""
        self.place: Place = lambda batch, _: batch.events
        """Returns events that are delivered now, with their annotations."""
        self.take_back: TakeBack = lambda *_: None
        """Tells a transport that delivered events of a flow behind a place were not logged, or that
        those up to a second place wait for their types."""
        self.read_lost: ReadLost | None = None
        """Reads events that the log of their origin does not have any more."""
        self._lost: dict[str, deque[tuple[ReceivedRange, Mark, Settled]]] = {}
        """Flows whose lost events are being read, with the later ranges."""
        self._room: list[Deferred[None]] = []
        """Fire when there is room for further lost events."""

    def add_range(self, effect: AppendRange, settled: Settled) -> None:
        """Give the events of a range to the transport, and log them when it hands them over."""
        received, cursor = effect.received, effect.cursor
        flow, lost_upto = received.frame.origin, received.range.unavailable_upto
        if self.type_waits.is_full(flow):
            settled(LogUnavailable("too many events wait for their types"))
            return
        later = self._lost.get(flow)
        if later is not None:
            if len(later) < MOST_LATER_RANGES:
                later.append((received, cursor, settled))
            else:
                settled(LogUnavailable("too many ranges wait for lost events"))
        elif self.read_lost is not None and lost_upto is not None and cursor < lost_upto:
            reading = Deferred.fromCoroutine(
                self._read_lost(self.read_lost, lost_upto, received, cursor, settled)
            )
            reading.addErrback(lambda failure: self.log.failure("reading failed", failure))
        else:
            self._add_received(received, cursor, settled)

    async def _read_lost(
        self, read: ReadLost, upto: Mark, received: ReceivedRange, cursor: Mark, settled: Settled
    ) -> None:
        """Add what other logs and the archive have of a range, and then the range itself."""
        flow = received.frame.origin
        later = self._lost[flow] = deque()

        def part_settled(error: BrokerError | None) -> None:
            if error is not None:
                settled(error)

        try:
            async with aclosing(read(flow, cursor, upto)) as parts:  # type: ignore[type-var]
                async for events, lost_upto in parts:
                    while self.waiting_bytes > MOST_WAITING_BYTES // 2:
                        room: Deferred[None] = Deferred()
                        self._room.append(room)
                        await room
                    if self._lost.get(flow) is not later:
                        return
                    end = events[-1].mark if events else lost_upto
                    assert end is not None
                    span = Range(received.range.destination, cursor, end, lost_upto)
                    frame = make_local_frame(flow, received.frame.origin_node, span, events)
                    part = ReceivedRange(span, frame, 0, received.loss_reason)
                    self._add_received(part, cursor, part_settled)
                    cursor = end
        except BrokerError as error:
            if self._lost.get(flow) is later:
                # It comes again, with all behind it.
                del self._lost[flow]
                settled(error)
            return
        if self._lost.get(flow) is later:
            del self._lost[flow]
            span = received.range._replace(after=cursor, unavailable_upto=None)
            self._add_received(attrs.evolve(received, range=span), cursor, settled)
            for each in later:
                self.add_range(AppendRange(each[0], each[1]), each[2])

    def _add_received(self, received: ReceivedRange, cursor: Mark, settled: Settled) -> None:
        flow, span = received.frame.origin, received.range
        try:
            events = list(received.frame.events_for(received.index))
        except ProtocolError as error:
            settled(error)
            return
        if events and events[0].mark <= cursor:
            events = [event for event in events if event.mark > cursor]
        size = sum([len(event.document) for event in events])
        if self.waiting_bytes and self.waiting_bytes + size > MOST_WAITING_BYTES:
            settled(LogUnavailable("too many events wait for their order"))
            return
        self.waiting_bytes += size
        lost_upto = span.unavailable_upto
        if lost_upto is not None and cursor < lost_upto and events:
            # The gap is reported behind the events before it, and before those of the range.
            gap = span._replace(upto=lost_upto, has_more=False)
            self._add(flow, _Waiting(_without_events(received, gap), cursor, settled, self._ticks))
            cursor = lost_upto
            span = span._replace(after=lost_upto, unavailable_upto=None)
            received = attrs.evolve(received, range=span)
        self._add(flow, _Waiting(received, cursor, settled, self._ticks, deque(events), size))
        if events:
            node = str(received.frame.origin_node)
            batch = FlowBatch(flow, node, cursor, span.upto, events)
            self.look_up_types(batch)
            self.order(batch, not received.is_carried)

    def deliver(self, batch: FlowBatch) -> bool:
        """Log events that the transport hands over. Return False for events that it does not have,
        or for another order than that of the flow."""
        if batch.flow not in self._flows:
            return not batch.events
        count = self.type_waits.hold(batch)
        if count < len(batch.events):
            after = batch.events[count - 1].mark if count else batch.after
            self.take_back(batch.flow, after, batch.events[-1].mark)
        return self._log_delivered(batch.flow, batch.events[:count])

    def _hand_over(self, batch: FlowBatch) -> None:
        """Deliver events that have waited for their types, up to the next one that must wait."""
        count = self.type_waits.hold(batch)
        if count:
            ready = attrs.evolve(batch, events=batch.events[:count])
            self._log_delivered(batch.flow, self.place(ready, False))

    def _drop_waiting(self, flow: str, after: Mark) -> None:
        """Let the events of a flow behind a place come again: too many of them wait."""
        dropped = self._pop_flow(flow)
        self.take_back(flow, after, None)
        if dropped:
            dropped[0].settled(LogUnavailable("too many events wait for their types"))

    def _log_delivered(self, flow: str, events: Sequence[CarriedEvent]) -> bool:
        # A failure ends the flow.
        while events and (waiting := self._flows.get(flow)):
            first = waiting[0]
            count = 0
            for event, own in zip(events, first.events, strict=False):
                if event.mark != own.mark:
                    break
                count += 1
            if not count:
                return False
            self._log_events(flow, first, events[:count])
            events = events[count:]
            self._log_empty(flow)
        return not events

    def release_overdue(self) -> None:
        """Deliver events that a transport has had for `ORDER_SECONDS`. Call each second."""
        self._ticks += 1
        self.type_waits.drop_overflow()
        for flow in list(self._flows):
            if self.type_waits.is_waiting(flow):
                continue
            while (queue := self._flows.get(flow)) and self._is_overdue(queue[0]):
                first = queue[0]
                node = str(first.received.frame.origin_node)
                upto = first.received.range.upto
                batch = FlowBatch(flow, node, first.cursor, upto, list(first.events))
                self._log_events(flow, first, self.place(batch, True))
                self._log_empty(flow)

    def _is_overdue(self, waiting: _Waiting) -> bool:
        return waiting.tick + ORDER_SECONDS <= self._ticks

    def release_all(self, patterns: Sequence[str]) -> None:
        """Log what a transport that has stopped did not hand over."""
        for flow in [each for each in self._flows if pattern_of(each) in patterns]:
            for each in self._pop_flow(flow):
                self._relay_ingest.log_range(each.received, each.cursor, each.settled)

    def _add(self, flow: str, waiting: _Waiting) -> None:
        self._flows.setdefault(flow, deque()).append(waiting)
        self._log_empty(flow)

    def _log_events(self, flow: str, waiting: _Waiting, events: Sequence[CarriedEvent]) -> None:
        for _ in events:
            waiting.events.popleft()
        after, whole = waiting.cursor, waiting.received
        upto = events[-1].mark if waiting.events else whole.range.upto
        waiting.cursor = upto
        # The log gets all events of the group, not only those that subscriptions want.
        span = Range(whole.range.destination, after, upto)
        frame = make_local_frame(flow, whole.frame.origin_node, span, events)
        part = ReceivedRange(span, frame, 0, is_carried=whole.is_carried)
        if not waiting.events:
            self._flows[flow].popleft()
            self._release_bytes(waiting.size)
        self._relay_ingest.log_range(part, after, self._settler(flow, after, waiting))

    def _log_empty(self, flow: str) -> None:
        """Log the ranges without events at the front of a flow."""
        queue = self._flows.get(flow)
        while queue and not queue[0].events:
            first = queue.popleft()
            settled = self._settler(flow, first.cursor, first)
            self._relay_ingest.log_range(first.received, first.cursor, settled)
        if queue is not None and not queue:
            self._flows.pop(flow, None)

    def _settler(self, flow: str, after: Mark, waiting: _Waiting) -> Settled:
        def settled(error: BrokerError | None) -> None:
            if error is not None:
                # The range comes again, with all behind it.
                self._pop_flow(flow)
                self.take_back(flow, after, None)
            waiting.settled(error)

        return settled

    def _pop_flow(self, flow: str) -> deque[_Waiting]:
        self.type_waits.forget_flow(flow)
        found = self._flows.pop(flow, deque())
        self._lost.pop(flow, None)
        self._release_bytes(sum(each.size for each in found))
        return found

    def _release_bytes(self, size: int) -> None:
        self.waiting_bytes -= size
        if self._room and self.waiting_bytes <= MOST_WAITING_BYTES // 2:
            room, self._room = self._room, []
            for each in room:
                each.callback(None)


def _without_events(received: ReceivedRange, span: Range) -> ReceivedRange:
    frame = make_local_frame(received.frame.origin, received.frame.origin_node, span, ())
    return ReceivedRange(span, frame, 0, received.loss_reason, received.is_carried)
