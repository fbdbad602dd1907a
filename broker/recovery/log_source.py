"""Logs as sources of one recovery: of the previous node, of the origins, and of this node."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from itertools import islice

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from broker.cluster.address import Address, address_or_none
from broker.delivery.recovery_contract import MarkRange, RecoveryRequest
from broker.errors import BrokerError, NotConnected
from broker.event.flow import origin_of
from broker.event.place import Mark
from broker.log.logged_event import LoggedEvent
from broker.recovery.context import RecoveryContext
from broker.recovery.log_merge import merge_logs
from broker.recovery.log_page_reader import LogPageRequest, Page
from broker.recovery.page_merge import EventPages, PageMerge
from broker.recovery.planner import RemainingRanges
from broker.recovery.remote_logs import LogSurvey
from broker.recovery.unproven_claim import UnprovenClaim

BATCH_EVENTS = 256


class LogSource:
    """Reads pages of logs one at a time, and advances `remaining` behind them."""

    log = Logger()

    def __init__(
        self, missed: RecoveryRequest, context: RecoveryContext, remaining: RemainingRanges
    ) -> None:
        self._missed = missed
        self._context = context
        self._remaining = remaining
        self._is_cancelled = False
        self._answered_origins: set[str] = set()
        """Origins sent completely by their own nodes."""
        self._unawaited_origins: set[str] = set()
        """Origins of which no node that has answered has the log."""
        self._available_from: dict[str, set[Mark]] = {}
        """By origin without a complete log, marks after which some log is complete."""
        self.missing_ranges: list[tuple[str, Mark, Mark]] = []
        """Ranges before these marks that no log has."""

    def cancel(self) -> None:
        self._is_cancelled = True

    async def read_previous_node(self) -> AsyncIterator[Sequence[LoggedEvent]]:
        address = Address.parse(self._missed.previous_address)
        request = self._page_request(self._remaining.ranges)
        async for page in self._read_pages(address, self._of_previous_node(request)):
            yield page.events

    async def read_own_log(self) -> AsyncIterator[Sequence[LoggedEvent]]:
        request = attrs.evolve(self._page_request(self._remaining.ranges), allow_partial=True)
        async for page in self._read_pages(None, request):
            yield page.events

    async def read_origin_logs(
        self, *, archive_follows: bool
    ) -> AsyncIterator[Sequence[LoggedEvent]]:
        """Read the logs of the remaining origins.

        All are read first, so that publishers that moved between origins stay in order. With
        `archive_follows`, the archive is asked for the rest.
        """
        ranges = self._remaining.ranges
        if len(ranges) == 1:
            for origin, each in ranges.items():
                async for page in self._read_log(origin, each):
                    yield page.events
            return
        before = self._remaining.copy()
        gathered: dict[str, list[LoggedEvent]] = {}
        for origin, each in ranges.items():
            events = gathered[origin] = []
            async for page in self._read_log(origin, each):
                events += page.events
        if self._remaining.ranges and archive_follows:
            # The archive has the missing events in order, also of publishers that moved.
            self._remaining.restore(before)
            return
        merged = merge_logs(gathered)
        while run := list(islice(merged, BATCH_EVENTS)):
            yield run

    async def read_all(self) -> list[LoggedEvent]:
        found: list[LoggedEvent] = []
        for origin, each in self._remaining.ranges.items():
            async for page in self._read_log(origin, each):
                found += page.events
        return found

    async def read_lost_branch(
        self, origin: str, after: Mark, upto: Mark
    ) -> AsyncIterator[LoggedEvent]:
        """Read this node's copies of events that a restored origin has lost.

        If the origin logs one again, it is a duplicate here.
        """
        if not await self._context.page_reader.has_events(origin, after, upto):
            return
        request = attrs.evolve(self._page_request({origin: (after, upto)}), allow_partial=True)
        while not self._is_cancelled:
            page = await self._read_page(None, request)
            for event in page.events:
                yield event
            if not page.next_serial or page.reached.get(origin, after) >= upto:
                return
            request = attrs.evolve(request, serial=page.next_serial)

    async def read_log_ends(self) -> AsyncIterator[Sequence[LoggedEvent]]:
        """Read the end of logs with a beginning that is missing everywhere."""
        # A log with damage at several places has several beginnings.
        while self._skip_to_available():
            async for events in self.read_origin_logs(archive_follows=False):
                yield events

    def _skip_to_available(self) -> bool:
        found = False
        begins, self._available_from = self._available_from, {}
        for origin, (after, upto) in self._remaining.ranges.items():
            ahead = [m for m in begins.get(origin, ()) if m > after and m[1] > after[1]]
            mark = min(ahead, default=after)
            if ahead and (upto is None or upto[1] >= mark[1]):
                self.missing_ranges.append((origin, after, mark))
                self._remaining.advance({origin: mark})
                found = True
        return found

    async def read_partial_logs(
        self, survey: LogSurvey | None = None
    ) -> AsyncIterator[Sequence[LoggedEvent]]:
        """Read events that this node and others logged for their own subscriptions.

        An event that is here at another place does not come again.
        """
        ranges = {
            origin: (after, upto)
            for origin, (after, upto) in self._remaining.ranges.items()
            if upto is not None and origin_of(origin) != self._context.own_origin
        }
        others = self._context.remote_logs
        if survey is None and others is not None and ranges:
            flows = (flow for origin in ranges for flow in self._context.flows_of(origin))
            survey = await others.survey_origins(list(dict.fromkeys([*ranges, *flows])))
        for origin, (after, upto) in ranges.items():
            request = self._page_request({origin: (after, upto)})
            pages: list[EventPages] = []
            # Events of other flows show that their places are not missing in this one.
            for flow in self._context.flows_of(origin):
                here = self._page_request({flow: (after, upto)})
                pages.append(self._read_logged_here(here))
                if others is not None and survey is not None:
                    pages += others.read_pages(flow, after, upto, survey)
            claim = UnprovenClaim(after)
            pages += self._read_claims(claim, origin, (after, upto))
            merged = PageMerge(pages)
            try:
                while run := await self._next_batch(merged, after):
                    for event in run:
                        begun = max(after, claim.upto)
                        if event.offset > begun[1] + 1:
                            self.missing_ranges.append(
                                (origin, begun, (event.epoch, event.offset - 1))
                            )
                        after = event.mark
                    yield await self._context.page_reader.select_events(request, run)
                    self._remaining.advance({origin: after})
            finally:
                await merged.close()
            self._remaining.advance({origin: claim.upto})

    def _read_claims(
        self, claim: UnprovenClaim, origin: str, wanted: MarkRange
    ) -> list[EventPages]:
        """Return readers of what nodes have sent before, or send now, without a proof."""
        exchange = self._context.page_exchange
        if exchange is None or self._context.must_prove:
            return []
        request = self._page_request({origin: wanted})
        previous = address_or_none(self._missed.previous_address)
        nodes = [(node, request) for node in self._context.origin_nodes(origin)]
        if previous is not None:
            nodes.append((previous, self._of_previous_node(request)))
        return [claim.read_node(exchange, node, each) for node, each in nodes]

    def _of_previous_node(self, request: LogPageRequest) -> LogPageRequest:
        missed = self._missed
        return attrs.evolve(request, client_id=missed.client_id, name=missed.durable_name)

    async def _read_logged_here(self, request: LogPageRequest) -> EventPages:
        request = attrs.evolve(request, allow_partial=True, as_logged=True)
        while True:
            page = await self._read_page(None, request)
            yield page.events
            if not page.next_serial:
                return
            request = attrs.evolve(request, serial=page.next_serial)

    async def _next_batch(self, merged: PageMerge, after: Mark) -> list[LoggedEvent]:
        run: list[LoggedEvent] = []
        while len(run) < BATCH_EVENTS and not self._is_cancelled:
            event = await merged.next_event(run[-1].mark if run else after)
            if event is None:
                break
            run.append(event)
        return run

    def mark_log_lost(self, origin: str) -> None:
        """Do not wait for a log that no node has."""
        self._unawaited_origins.add(origin)

    def is_unanswered(self, origin: str) -> bool:
        """Return True if another node has the log, and has not sent all that it has."""
        is_own = origin_of(origin) == self._context.own_origin
        has_network = self._context.page_exchange is not None
        is_awaited = has_network and not is_own and not self._context.is_gone(origin)
        return is_awaited and origin not in self._answered_origins

    def unreachable_origins(self) -> list[str]:
        """Return origins with a known remainder whose own node has not answered."""
        return [
            origin
            for origin, (_, upto) in self._remaining.ranges.items()
            if upto is not None
            and origin_of(origin) != self._context.own_origin
            and origin not in self._answered_origins
            and origin not in self._unawaited_origins
            and not self._context.is_gone(origin)
        ]

    async def _read_log(self, origin: str, wanted: MarkRange) -> AsyncIterator[Page]:
        request = self._page_request({origin: wanted})
        nodes: list[Address | None] = (
            [None] if self._context.page_reader.has_log_or_replica(origin) else []
        )
        if origin_of(origin) != self._context.own_origin:
            nodes += self._context.origin_nodes(origin)
        for address in nodes:
            remaining = self._remaining.ranges.get(origin)
            if remaining is None:
                return
            page_origin = ""
            try:
                async for page in self._read_pages(
                    address, attrs.evolve(request, ranges={origin: remaining})
                ):
                    page_origin = page.origin
                    if origin in page.begins:
                        self._available_from.setdefault(origin, set()).add(page.begins[origin])
                    yield page
            except BrokerError as error:
                self.log.info(
                    "reading {origin} from {node} failed: {error}",
                    node=address,
                    origin=origin,
                    error=error,
                )
            else:
                if page_origin == origin_of(origin):
                    self._answered_origins.add(origin)

    async def _read_pages(
        self, address: Address | None, request: LogPageRequest
    ) -> AsyncIterator[Page]:
        """Yield pages of a node's log, and advance the ranges behind each; None: this node."""
        while not self._is_cancelled:
            page = await self._read_page(address, request)
            if not page.is_proven:
                raise NotConnected(f"{address} can not prove that its page is whole")
            yield page
            self._remaining.advance(page.reached)
            ranges = {o: each for o, each in self._remaining.ranges.items() if o in request.ranges}
            if not page.next_serial or not ranges:
                return
            request = attrs.evolve(request, ranges=ranges, serial=page.next_serial)

    def _read_page(self, address: Address | None, request: LogPageRequest) -> Deferred[Page]:
        if address is None:
            return Deferred.fromCoroutine(self._context.page_reader.read_page(request, wait=True))
        assert self._context.page_exchange is not None
        return self._context.page_exchange.fetch_page(address, request)

    def _page_request(self, ranges: Mapping[str, MarkRange]) -> LogPageRequest:
        missed = self._missed
        return LogPageRequest(
            *(missed.pattern, missed.query, missed.clearance, ranges),
            holder=missed.holder,
            from_ms=missed.from_ms,
            until_ms=missed.until_ms,
        )
