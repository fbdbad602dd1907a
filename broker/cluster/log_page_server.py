"""Pages of this node's own log, for nodes that miss events (DCP D45)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from broker.cluster.address import Address
from broker.cluster.remote_interest import RemoteInterest
from broker.cluster.traffic.frame import Range
from broker.cluster.traffic.messages import PageRequest
from broker.event.place import Mark
from broker.log.damage import DamageFound
from broker.log.event_log import EventLog
from broker.log.history import BranchLoss
from broker.log.logged_event import LoggedEvent
from broker.matching.contract import Accepted, IMatcher
from broker.sessions.time_slices import SLICE_SECONDS
from broker.streams.contract import CarriedEvent
from broker.transport.clock import IClock
from broker.transport.sleep import sleep

PAGE_EVENTS = 512
PAGE_BYTES = 512 << 10
#: Requests of further readers are dropped, and come again.
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
        on_page: Callable[[PageRequest, Range, list[CarriedEvent]], None],
    ) -> None:
        """`destination_of` returns the destination whose interest includes a reader's."""
        self._event_log = event_log
        self._matcher = matcher
        self._remote_interest = remote_interest
        self._clock = clock
        self._destination_of = destination_of
        self._is_cleared = is_cleared
        self._on_page = on_page
        self._requests: OrderedDict[tuple[Address, str], PageRequest] = OrderedDict()
        """By reader and flow."""
        self._reading = False
        self.reader_has_all: Callable[[Address, BranchLoss], bool] = lambda *_: False
        """True if a reader has all events of a branch that this log has lost in part."""
        self._told_losses: set[tuple[Address, str, Mark]] = set()
        """By reader, flow and place."""
        self.denied = 0
        """Events without a route to the reader that is cleared for them."""

    def serve_page(self, request: PageRequest) -> None:
        """Queue a page request; it replaces an earlier one of the same reader for the flow."""
        key = (request.source, request.origin)
        if key not in self._requests and len(self._requests) >= MOST_READERS:
            return
        self._requests[key] = request
        if not self._reading:
            self._reading = True
            Deferred.fromCoroutine(self._read_all()).addErrback(
                lambda failure: self.log.failure(
                    "reading a log page for another node failed", failure
                )
            )

    async def _read_all(self) -> None:
        try:
            while self._requests:
                _, request = self._requests.popitem(last=False)
                await self._read_page(request)
        finally:
            self._reading = False

    async def _read_page(self, request: PageRequest) -> None:
        log, flow = self._event_log, request.origin
        origin, after = log.origin, request.after
        start = max(after, log.begins_after.get(origin, (0, 0)))
        durable, newest = log.coverage[origin], log.own_end
        loss = self._next_loss(request.source, flow, start)
        lost = loss.upto if loss is not None and loss.after <= start else None
        if loss is not None and lost is not None and loss.is_on_branch:
            # The reader's next request shows whether it has taken this page.
            end = max(after, log.flows.limit(flow, lost))
            page = Range(request.source, after, end, end, is_unfiltered=request.is_unfiltered)
            self._on_page(request, page, [])
            return
        start = max(start, lost or start)
        # If all events are durable, the newest epoch may still be empty.
        upto = max(newest if newest[1] == durable[1] else durable, start)
        try:
            events, damaged = await self._read_after(start)
        except DamageFound:
            # The log is being repaired: the reader asks again.
            return
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
        if request.is_unfiltered:
            selected = self._select_cleared(events, request.source)
        else:
            selected = await self._select_wanted(events, request.source)
        page = Range(
            request.source, after, upto, unavailable_upto, is_unfiltered=request.is_unfiltered
        )
        self._on_page(request, page, selected)

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
    ) -> list[CarriedEvent]:
        destination = self._destination_of(reader)
        selected: list[CarriedEvent] = []
        matched = 0
        while matched < len(events):
            documents = [event.document for event in events[matched:]]
            verdicts = self._matcher.match(documents, seconds=SLICE_SECONDS)
            for event, verdict in zip(events[matched:], verdicts, strict=False):
                # An unmatchable event is sent rather than withheld.
                is_wanted = not isinstance(verdict, Accepted) or (
                    destination in self._remote_interest.destinations(verdict.subscriptions)
                )
                if is_wanted and not self._is_cleared(reader, event.level):
                    self.denied += 1
                elif is_wanted:
                    selected.append(
                        CarriedEvent(event.mark, event.record, event.document, event.level)
                    )
            matched += len(verdicts)
            if matched < len(events):
                await sleep(self._clock)
        return selected

    def _select_cleared(self, events: list[LoggedEvent], reader: Address) -> list[CarriedEvent]:
        cleared = [event for event in events if self._is_cleared(reader, event.level)]
        self.denied += len(events) - len(cleared)
        return [
            CarriedEvent(event.mark, event.record, event.document, event.level) for event in cleared
        ]
