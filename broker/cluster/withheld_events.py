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
from broker.cluster.replicas.page_frame import make_page_frame
from broker.cluster.traffic.frame_range import Range
from broker.cluster.traffic.received_range import ReceivedRange
from broker.errors import BrokerError
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
    records: dict[Mark, bytes] = attrs.field(factory=dict)
    """Records with the transport's annotations, of delivered events that are not copied yet."""
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
        self.place: Callable[[FlowBatch], Sequence[CarriedEvent]] = lambda batch: batch.events
        """Returns events that such a transport has not delivered, with their annotations."""
        end = self._end = self._start = event_log.coverage[event_log.origin]
        flows = event_log.flows
        self._flows = {
            flow: _Flow(
                flow, event_log.coverage[flow], end, end, end if flow in flows.lapsed else (0, 0)
            )
            for flow in flows.ordered
        }
        self._lapsed = [self._flows[flow] for flow in flows.lapsed]

    def withhold(
        self, events: list[LoggedEvent], matches: _Matches
    ) -> tuple[list[LoggedEvent], _Matches]:
        """Keep committed own events of ordered flows, and return the others."""
        if events:
            self._end = events[-1].mark
        prompt: list[LoggedEvent] = []
        prompt_matches: list[tuple[int, ...]] = []
        for event, numbers in zip(events, matches, strict=True):
            if event.is_withheld:
                self._flows[event.origin].keep(event)
            else:
                prompt.append(event)
                prompt_matches.append(numbers)
        for flow in self._lapsed:
            self._release(flow, self._end)
        return prompt, prompt_matches

    def release(
        self, key: str, after: Mark, upto: Mark, events: Sequence[CarriedEvent] = ()
    ) -> bool:
        """Release the events up to `upto`. Return False for a flow that is not ordered.

        The transport did not hand over those up to `after`. The copies of `events` have the
        annotations that these have.
        """
        flow = self._flows.get(key)
        if flow is None:
            return False
        flow.records.update((each.mark, each.record) for each in events if each.mark > flow.cursor)
        upto = min(upto, self._end)
        if after > flow.cursor:
            self._release(flow, min(after, upto), is_recovered=True)
        self._release(flow, upto)
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
                self._release(flow, min(self._start, flow.last), is_recovered=True)
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
        events: Sequence[LoggedEvent],
        *,
        is_recovered: bool,
        done: Deferred[bool] | None = None,
    ) -> None:
        """`done` fires with False if not all were logged."""
        address = self._own_address()
        after, flow.cursor = flow.cursor, upto
        span = Range(address, after, upto)
        is_ordered = self.orders(flow.key)
        copied: Sequence[LoggedEvent | CarriedEvent] = events
        if flow.records or is_ordered:
            copied = self._annotate(flow, str(address), after, upto, events)
        frame = make_page_frame(flow.key, address, [span], copied)
        received = ReceivedRange(span, frame, 0, is_copy=True)

        def settled(error: BrokerError | None) -> None:
            """It is called for each part of a range that takes long."""
            if error is not None:
                # They are overdue at the next tick. Ranges behind this one fail too.
                flow.cursor = min(flow.cursor, after)
            elif not events:
                self._on_covered()
            is_done = error is not None or self._log.coverage[flow.key] >= upto
            if is_done and done is not None and not done.called:
                done.callback(error is None)

        if events and is_recovered and not is_ordered:
            self._on_recovered(received)
        self._relay_ingest.log_range(received, after, settled)

    def _annotate(
        self, flow: _Flow, address: str, after: Mark, upto: Mark, events: Sequence[LoggedEvent]
    ) -> list[CarriedEvent]:
        """Return the events as the transport delivers them."""
        records = {mark: flow.records.pop(mark) for mark in list(flow.records) if mark <= upto}
        carried = [as_carried_event(event) for event in events]
        rest = [event for event in carried if event.mark not in records]
        if rest:
            placed = self.place(FlowBatch(flow.key, address, after, upto, rest))
            records.update((event.mark, event.record) for event in placed)
        return [event._replace(record=records[event.mark]) for event in carried]
