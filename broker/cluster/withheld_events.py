"""Own events of ordered flows, withheld until their transport hands them over.

The node commits and acknowledges them as usual, and publishes them to the transport. Subscriptions
of this node get a copy of each (`broker.log.known_flows`) in the order in which the transport hands
over own and received events. Events that it does not hand over are released from the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from broker.cluster.address import Address
from broker.cluster.carried_event import as_carried_event
from broker.cluster.relay_ingest import RelayIngest
from broker.cluster.replicas.page_frame import make_local_frame
from broker.cluster.traffic.frame_range import Range
from broker.cluster.traffic.received_range import ReceivedRange
from broker.errors import BrokerError
from broker.event.flow import pattern_of
from broker.event.place import Mark
from broker.log.event_log import EventLog
from broker.log.logged_event import LoggedEvent
from broker.streams.contract import CarriedEvent, FlowBatch

#: Bytes in memory for each flow; older events are read from the log again.
MOST_KEPT_BYTES = 8 << 20
PAGE_EVENTS = 512
#: A transport that decides when events are delivered has this time, or twice as long.
ORDER_SECONDS = 30
PAGE_BYTES = 512 << 10

#: As the methods of `IOrderingTransport`.
Place: TypeAlias = Callable[[FlowBatch, bool], Sequence[CarriedEvent]]
TakeBack: TypeAlias = Callable[[str, Mark, Mark | None], object]
_Matches: TypeAlias = Sequence[tuple[int, ...]]


@attrs.define
class _Flow:
    key: str
    cursor: Mark
    """Events up to it are released, or being released."""
    kept_after: Mark
    """All events behind it are in `kept`."""
    last: Mark
    """At least the place of the newest event."""
    overdue: Mark
    """`last` at the previous tick."""
    target: Mark = (0, 0)
    """Released up to here from the log."""
    is_reading: bool = False
    kept: deque[LoggedEvent] = attrs.field(factory=deque)
    kept_bytes: int = 0
    handed: Mark = (0, 0)
    """The transport has delivered the events up to here, or an earlier process may have."""
    unread: Mark = (0, 0)
    """Copies up to here come from the log: of an earlier process, or after a failed commit."""
    marks: deque[Mark] = attrs.field(factory=deque)
    """Places of events that a transport delivers later."""
    ticks: int = 0

    def keep(self, event: LoggedEvent) -> None:
        self.kept.append(event)
        self.kept_bytes += event.size
        self.last = event.mark
        while self.kept_bytes > MOST_KEPT_BYTES:
            self.kept_after = self._pop_kept().mark

    def take_kept(self, upto: Mark) -> list[LoggedEvent]:
        taken = []
        while self.kept and self.kept[0].mark <= upto:
            taken.append(self._pop_kept())
        self.kept_after = max(self.kept_after, upto)
        return taken

    def _pop_kept(self) -> LoggedEvent:
        event = self.kept.popleft()
        self.kept_bytes -= event.size
        return event


class WithheldEvents:
    """The ordered own flows of a node. All copies are matched when they are released."""

    log = Logger()

    def __init__(
        self,
        event_log: EventLog,
        relay_ingest: RelayIngest,
        own_address: Callable[[], Address],
        on_recovered: Callable[[ReceivedRange], object],
        on_covered: Callable[[], object],
    ) -> None:
        """`on_recovered` is called before events that the transport did not hand over are logged.
        `on_covered` is called after a commit without events, for subscriptions that wait for it."""
        self._log = event_log
        self._relay_ingest = relay_ingest
        self._own_address = own_address
        self._on_recovered = on_recovered
        self._on_covered = on_covered
        self.orders: Callable[[str], bool] = lambda _: False
        """Returns whether a running transport decides when events of a flow are delivered."""
        self.place: Callable[[FlowBatch, bool], Sequence[CarriedEvent]] = lambda batch, _: (
            batch.events
        )
        """Returns events that such a transport has not delivered, with their annotations."""
        self.take_back: TakeBack = lambda *_: None
        """Tells it that delivered events of a flow behind a place were not logged."""
        self._earlier: list[tuple[Sequence[_Flow], Deferred[None]]] = []
        end = self._end = self._start = event_log.coverage[event_log.origin]
        flows = event_log.flows
        self._flows = {
            flow: _Flow(
                flow, event_log.coverage[flow], end, end, end if flow in flows.lapsed else (0, 0)
            )
            for flow in flows.ordered
        }
        for flow in self._flows.values():
            flow.unread = end
        self._lapsed = [self._flows[flow] for flow in flows.lapsed]

    def withhold(
        self, events: list[LoggedEvent], matches: _Matches
    ) -> tuple[list[LoggedEvent], _Matches]:
        """Keep committed own events of ordered flows, and return the others."""
        if events:
            self._end = events[-1].mark
        prompt: list[LoggedEvent] = []
        prompt_matches: list[tuple[int, ...]] = []
        has_transport = {key: self.orders(key) for key in self._flows}
        for event, numbers in zip(events, matches, strict=True):
            if event.is_withheld:
                flow = self._flows[event.origin]
                if has_transport[flow.key]:
                    # The transport has them.
                    flow.last = flow.kept_after = event.mark
                    flow.marks.append(event.mark)
                else:
                    flow.keep(event)
            else:
                prompt.append(event)
                prompt_matches.append(numbers)
        for flow in self._lapsed:
            self._release(flow, self._end)
        return prompt, prompt_matches

    def release(self, key: str, after: Mark, upto: Mark) -> bool:
        """Release the events up to `upto`. Return False for a flow that is not ordered.

        The transport did not hand over those up to `after`.
        """
        flow = self._flows.get(key)
        if flow is None:
            return False
        upto = min(upto, self._end)
        if after > flow.cursor:
            self._release(flow, min(after, upto), is_recovered=True)
        self._release(flow, upto)
        return True

    def release_earlier(self, patterns: Sequence[str]) -> Deferred[None]:
        """Release own events of earlier processes, before an ordering transport delivers others."""
        released: Deferred[None] = Deferred()
        flows = [flow for flow in self._flows.values() if pattern_of(flow.key) in patterns]
        self._earlier.append((flows, released))
        for flow in flows:
            self._release(flow, self._start, is_recovered=True)
        self._fire_released()
        return released

    def _fire_released(self) -> None:
        for waiting in list(self._earlier):
            flows, released = waiting
            if all(self._log.coverage[flow.key] >= self._start for flow in flows):
                self._earlier.remove(waiting)
                released.callback(None)

    def deliver(self, batch: FlowBatch) -> bool:
        """Log copies of own events as a transport delivers them. Return False for another flow."""
        flow = self._flows.get(batch.flow)
        if flow is None:
            return False
        flow.handed = max(flow.handed, batch.upto)
        if batch.upto <= flow.cursor:
            return True
        has_skipped = flow.marks and flow.marks[0] <= batch.after
        if flow.is_reading or flow.cursor < flow.unread or has_skipped:
            # Earlier events come from the log first, and these behind them.
            self.take_back(flow.key, flow.cursor, None)
            self._release(flow, flow.handed, is_recovered=True)
            return True
        self._log_copies(flow, batch.upto, batch.events, is_recovered=False)
        return True

    def release_overdue(self) -> None:
        """Release events that the transport has not handed over for a second. Call each second.

        A transport that decides when events are delivered has `ORDER_SECONDS` for those of this
        process.
        """
        for flow in self._flows.values():
            is_ordered = self.orders(flow.key)
            flow.ticks += 1
            if is_ordered:
                self._release(flow, max(flow.handed, self._start), is_recovered=True)
            if not is_ordered or flow.ticks % ORDER_SECONDS == 0:
                if flow.cursor < flow.overdue:
                    self._release(flow, flow.overdue, is_recovered=True)
                flow.overdue = flow.last
            is_idle = flow.last <= flow.cursor == self._log.coverage[flow.key]
            if is_idle and not flow.is_reading:
                # Positions of clients from other nodes may lie behind the last event.
                self._release(flow, self._end)

    def _release(self, flow: _Flow, upto: Mark, *, is_recovered: bool = False) -> None:
        upto = self._log.flows.limit(flow.key, upto)
        if upto <= flow.cursor:
            return
        if flow.is_reading or flow.cursor < flow.kept_after:
            flow.target = max(flow.target, upto)
            if not flow.is_reading:
                flow.is_reading = True
                reading = Deferred.fromCoroutine(self._release_from_log(flow))
                # It is repeated at the next tick.
                reading.addErrback(lambda failure: failure.trap(BrokerError))
                reading.addErrback(lambda failure: self.log.failure("reading failed", failure))
            return
        self._log_copies(flow, upto, flow.take_kept(upto), is_recovered=is_recovered)

    async def _release_from_log(self, flow: _Flow) -> None:
        """Release events that are not in memory: of an earlier process, or after a failure."""
        log = self._log
        try:
            # A part of a range that failed may be logged, or is being committed.
            flow.cursor = max(flow.cursor, log.own_cut()[flow.key])
            while flow.cursor < flow.target:
                upto = flow.target
                events = await log.read_past_damage(
                    log.origin, flow.cursor, PAGE_EVENTS, PAGE_BYTES
                )
                if events and events[-1].mark < upto:
                    upto = events[-1].mark
                found = [event for event in events if event.mark <= upto]
                selected = log.flows.select_flow(found, flow.key)
                flow.take_kept(upto)
                done: Deferred[bool] = Deferred()
                self._log_copies(flow, upto, selected, is_recovered=True, done=done)
                if not await done:
                    return
        finally:
            flow.is_reading = False

    def _log_copies(
        self,
        flow: _Flow,
        upto: Mark,
        events: Sequence[LoggedEvent | CarriedEvent],
        *,
        is_recovered: bool,
        done: Deferred[bool] | None = None,
    ) -> None:
        """`done` fires with False if not all were logged."""
        address = self._own_address()
        after, flow.cursor = flow.cursor, upto
        while flow.marks and flow.marks[0] <= upto:
            flow.marks.popleft()
        span = Range(address, after, upto)
        is_ordered = self.orders(flow.key)
        carried = [
            each if isinstance(each, CarriedEvent) else as_carried_event(each) for each in events
        ]
        if is_ordered and is_recovered:
            batch = FlowBatch(flow.key, str(address), after, upto, carried)
            carried = list(self.place(batch, True))
        frame = make_local_frame(flow.key, address, span, carried)
        received = ReceivedRange(span, frame, 0, is_copy=True)

        def settled(error: BrokerError | None) -> None:
            """It is called for each part of a range that takes long."""
            if error is not None:
                # They are overdue at the next tick. Ranges behind this one fail too.
                flow.cursor = min(flow.cursor, after)
                if is_ordered:
                    flow.unread = max(flow.unread, upto)
                    self.take_back(flow.key, flow.cursor, None)
            elif not events:
                self._on_covered()
            self._fire_released()
            is_done = error is not None or self._log.coverage[flow.key] >= upto
            if is_done and done is not None and not done.called:
                done.callback(error is None)

        if events and is_recovered and not is_ordered:
            self._on_recovered(received)
        self._relay_ingest.log_range(received, after, settled)
