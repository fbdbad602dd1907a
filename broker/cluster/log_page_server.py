"""Pages of this node's own log, for nodes that miss events (DCP D45)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from broker.cluster.address import Address
from broker.cluster.fair_queue import FairQueue
from broker.cluster.page_queue import Page, PageQueue, PageQueues, WantedEvent
from broker.cluster.remote_interest import RemoteInterest
from broker.cluster.traffic.frame_range import Range
from broker.cluster.traffic.messages import PageRequest
from broker.event.place import Mark
from broker.ingest.claimed_validation import match_as_validated
from broker.log.damage import DamageFound
from broker.log.event_log import EventLog
from broker.log.history import BranchLoss
from broker.log.logged_event import LoggedEvent
from broker.matching.contract import Accepted, IMatcher
from broker.sessions.time_slices import SLICE_SECONDS
from broker.streams.contract import CarriedEvent
from broker.streams.dropped_count import QUEUE_FULL
from broker.streams.queue_policy import BLOCK, IQueuePolicy
from broker.transport.clock import IClock
from broker.transport.sleep import sleep

PAGE_EVENTS = 512
PAGE_BYTES = 512 << 10
#: Reads in succession for one reader with a queue; then others have their turn.
MOST_READS = 8
#: Beyond these the node or unit with the most loses its newest request, which comes again.
MOST_READERS = 1_024
#: Bound; beyond it all are dropped.
MOST_TOLD_LOSSES = 16_384


class _Loss(NamedTuple):
    after: Mark
    upto: Mark
    is_on_branch: bool
    """False: places of this log that stand for the lost ones."""


class LogPageServer:
    """Sends pages of this node's own log to nodes that miss events, one at a time (DCP D45)."""

    log = Logger()

    def __init__(
        self,
        *,
        event_log: EventLog,
        matcher: IMatcher,
        remote_interest: RemoteInterest,
        clock: IClock,
        destination_of: Callable[[Address], Address],
        is_cleared: Callable[[Address, int], bool],
        on_page: Callable[[PageRequest, Sequence[tuple[Range, list[CarriedEvent]]]], None],
        queues: PageQueues,
    ) -> None:
        """`destination_of` returns the destination whose interest includes a reader's."""
        self._event_log = event_log
        self._matcher = matcher
        self._remote_interest = remote_interest
        self._clock = clock
        self._destination_of = destination_of
        self._is_cleared = is_cleared
        self._on_page = on_page
        self._queues = queues
        self._requests: FairQueue[tuple[Address, str], PageRequest] = FairQueue(MOST_READERS)
        """By reader and flow; destinations have their turns."""
        self._reading = False
        self.reader_has_all: Callable[[Address, BranchLoss], bool] = lambda *_: False
        """True if a reader has all events of a branch that this log has lost in part."""
        self._told_losses: set[tuple[Address, str, Mark]] = set()
        """By reader, flow and place."""
        self.denied = 0
        """Events without a route to the reader that is cleared for them."""

    def serve_page(self, request: PageRequest) -> None:
        """Queue a page request; it replaces an earlier one of the same reader for the flow."""
        self._enqueue(request)
        if not self._reading:
            self._reading = True
            Deferred.fromCoroutine(self._read_all()).addErrback(
                lambda failure: self.log.failure(
                    "reading a log page for another node failed", failure
                )
            )

    def _enqueue(self, request: PageRequest, *, replaces: bool = True) -> None:
        reader = request.source
        key = reader, request.origin
        self._requests.add(self._destination_of(reader), key, request, replaces=replaces)

    async def _read_all(self) -> None:
        try:
            while self._requests:
                request = self._requests.take_next()
                queue = self._find_queue(request)
                if queue is not None:
                    await self._read_queue(request, queue)
                elif (page := await self._read_page(request, request.after)) is not None:
                    self._send(request, [page])
        finally:
            self._reading = False

    def _send(self, request: PageRequest, page: Page) -> None:
        self._on_page(request, [(span, list(map(_carry, events))) for span, events in page])

    def _find_queue(self, request: PageRequest) -> PageQueue | None:
        """Return the queue of a reader whose interest has a queue policy; else None."""
        policy: IQueuePolicy = BLOCK
        if request.may_drop and not request.is_unfiltered:
            destination = self._destination_of(request.source)
            policy = self._remote_interest.queue_policy(destination, request.origin)
        if policy == BLOCK:
            self._queues.remove(request.source, request.origin)
            return None
        now = self._clock.seconds()
        return self._queues.find(request.source, request.origin, policy, request.after, now)

    async def _read_queue(self, request: PageRequest, queue: PageQueue) -> None:
        """Read up to the log's end, and send a page from the queue."""
        sent = queue.sent_page(request.after)
        if sent is not None:
            self._send(request, sent)
            return
        if queue.after != request.after:
            queue.restart(request.after)
        log, flow, reader = self._event_log, request.origin, request.source
        destination = self._destination_of(reader)
        for _ in range(MOST_READS):
            page = await self._read_wanted(request, queue.read_upto)
            if page is None:
                return
            span, events = page
            if span.unavailable_upto is not None:
                break
            mine = [
                (event, matches and self._remote_interest.matches_of(destination, matches))
                for event, matches in events
            ]
            if not queue.add_events(mine, span.upto):
                span = span._replace(dropped=QUEUE_FULL)
                break
            if span.upto >= log.flows.limit(flow, log.coverage[log.origin]):
                break
        else:
            self._enqueue(request, replaces=False)
            return
        if queue.is_empty and (span.unavailable_upto is not None or span.dropped):
            # What was read before has no event for the reader.
            span = span._replace(after=queue.after)
            queue.restart(span.upto)
            self._send(request, [(span, [event for event, _ in events])])
        else:
            self._send(request, queue.take_page(reader, PAGE_EVENTS, PAGE_BYTES))

    async def _read_page(
        self, request: PageRequest, after: Mark
    ) -> tuple[Range, list[LoggedEvent]] | None:
        page = await self._read_wanted(request, after)
        return None if page is None else (page[0], [event for event, _ in page[1]])

    async def _read_wanted(
        self, request: PageRequest, after: Mark
    ) -> tuple[Range, list[WantedEvent]] | None:
        """Return the events of one page behind `after`; None while the log is repaired, or if
        there is no route to the reader."""
        log, flow = self._event_log, request.origin
        origin = log.origin
        start = max(after, log.begins_after.get(origin, (0, 0)))
        durable, newest = log.coverage[origin], log.own_end
        loss = self._next_loss(request.source, flow, start)
        lost = loss.upto if loss is not None and loss.after <= start else None
        if loss is not None and lost is not None and loss.is_on_branch:
            # The reader's next request shows whether it has taken this page.
            end = max(after, log.flows.limit(flow, lost))
            page = Range(request.source, after, end, end, is_unfiltered=request.is_unfiltered)
            return page, []
        start = max(start, lost or start)
        # If all events are durable, the newest epoch may still be empty.
        upto = max(newest if newest[1] == durable[1] else durable, start)
        try:
            events, damaged = await self._read_after(start)
        except DamageFound:
            # The reader asks again.
            return None
        # Own places are contiguous: a page ends earlier if it is full, or damage begins.
        if events and events[-1].offset < durable[1]:
            upto = events[-1].mark
        elif events:
            upto = max(upto, events[-1].mark)
        if loss is not None and start < loss.after < upto:
            # The next page begins with the loss.
            upto = loss.after
            events = [event for event in events if event.mark <= upto]
        # Retention may have removed some of them by now.
        since = max(log.begins_after.get(origin, (0, 0)), damaged)
        events = [event for event in events if event.mark > since]
        upto = log.flows.limit(flow, max(upto, since))
        events = log.flows.select_flow(events, flow)
        since = log.flows.limit(flow, since) if since > log.flows.since(flow) else (0, 0)
        unavailable_upto = max(
            [mark for mark in (since, lost) if mark and mark > after], default=None
        )
        upto = max(upto, after, unavailable_upto or after)
        selected: list[WantedEvent] | None
        if request.is_unfiltered:
            selected = self._select_cleared(events, request.source)
        else:
            selected = await self._select_wanted(events, request.source)
        if selected is None:
            return None
        page = Range(
            request.source, after, upto, unavailable_upto, is_unfiltered=request.is_unfiltered
        )
        return page, selected

    async def _read_after(self, start: Mark) -> tuple[list[LoggedEvent], Mark]:
        """Return own events, and the end of unrepairable damage before them."""
        log = self._event_log
        lost = (0, 0)
        while True:
            behind = max(start, lost)
            try:
                events = await log.read_origin(
                    log.origin, behind, PAGE_EVENTS, PAGE_BYTES, wait=False
                )
            except DamageFound as found:
                if not log.repairs.is_given_up(found.damage):
                    raise
                lost = found.damage.upto
            else:
                return events, lost

    def _next_loss(self, reader: Address, flow: str, start: Mark) -> _Loss | None:
        """Return a reader's next loss: at its own place, or, beyond that, where it was recorded."""
        for loss in self._event_log.history_chain.losses:
            if not loss.count or self.reader_has_all(reader, loss):
                continue
            key = reader, flow, loss.after
            if loss.is_before(start):
                return _Loss(loss.branch, loss.upto, is_on_branch=True)
            if start == loss.upto:
                if len(self._told_losses) >= MOST_TOLD_LOSSES:
                    self._told_losses.clear()
                self._told_losses.add(key)
            if start < loss.last and key not in self._told_losses:
                return _Loss(loss.after, loss.last, is_on_branch=False)
        return None

    async def _select_wanted(
        self, events: list[LoggedEvent], reader: Address
    ) -> list[WantedEvent] | None:
        """Return None if there is no route: it seems to be cleared for none of the events."""
        destination = self._destination_of(reader)
        selected: list[WantedEvent] = []
        matched = 0
        while matched < len(events):
            verdicts = match_as_validated(self._matcher, events[matched:], SLICE_SECONDS)
            for event, verdict in zip(events[matched:], verdicts, strict=False):
                # An unmatchable event is sent rather than withheld.
                is_wanted = not isinstance(verdict, Accepted) or (
                    destination in self._remote_interest.destinations(verdict.subscriptions)
                )
                if is_wanted and not self._is_cleared(reader, event.level):
                    if not self._is_cleared(reader, 0):
                        return None
                    self.denied += 1
                elif is_wanted:
                    matches = verdict.subscriptions if isinstance(verdict, Accepted) else None
                    selected.append((event, matches))
            matched += len(verdicts)
            if matched < len(events):
                await sleep(self._clock)
        return selected

    def _select_cleared(
        self, events: list[LoggedEvent], reader: Address
    ) -> list[WantedEvent] | None:
        if not self._is_cleared(reader, 0):
            return None
        cleared = [event for event in events if self._is_cleared(reader, event.level)]
        self.denied += len(events) - len(cleared)
        return [(event, None) for event in cleared]


def _carry(event: LoggedEvent) -> CarriedEvent:
    return CarriedEvent(event.mark, event.record, event.document, event.level)
