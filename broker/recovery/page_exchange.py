"""Pages of logs: fetched from other nodes one at a time, and served to them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

import attrs
import msgspec
from twisted.internet.defer import Deferred, fail
from twisted.logger import Logger

from broker.cluster.address import Address
from broker.cluster.node_messenger import NodeMessenger
from broker.cluster.traffic.frame import MAX_HOPS
from broker.errors import BrokerError, NotConnected, Overloaded, PeerSilent
from broker.event.place import Position
from broker.event.stream import StreamPattern
from broker.matching.query.query import Query
from broker.recovery.log_page_reader import LogPageReader, LogPageRequest, Page
from broker.recovery.messages import (
    EVERYTHING_LOGGED,
    FetchPage,
    PageFetched,
    pack_events,
    unpack_events,
)
from broker.transport.clock import IClock, IDelayed

#: Seconds until a page must come. The node may have to read and match thousands of events.
TIMEOUT = 15.0
#: Seconds until a request is repeated, since a link may have lost it or its answer.
RETRY_AFTER = 3.0
#: Most requests of other nodes that wait. More are refused.
MAX_WAITING = 1_024


@attrs.define
class _PendingRequest:
    message: FetchPage
    deadline: float
    answer: Deferred[Page] = attrs.field(factory=Deferred)
    retry: IDelayed | None = None


class PageExchange:
    log = Logger()

    def __init__(
        self,
        messenger: NodeMessenger,
        pages: LogPageReader,
        parse_query: Callable[[str, Mapping[str, str]], Query],
        clock: IClock,
    ) -> None:
        self._messenger = messenger
        self._page_reader = pages
        self._parse_query = parse_query
        self._clock = clock
        self._pending: dict[int, _PendingRequest] = {}
        self._waiting: deque[FetchPage] = deque()
        self._reading: FetchPage | None = None
        self.pages_served = 0
        self.events_denied = 0
        """Events left out because no route to the reader is cleared for them."""
        messenger.add_listener(FetchPage, self._receive_request)
        messenger.add_listener(PageFetched, self._receive_page)

    # ------------------------------------------------------------------ fetching

    def fetch_page(self, node: Address, request: LogPageRequest) -> Deferred[Page]:
        """Fetch a page of a node's log. Fails with the node's error, `PeerSilent` or
        `NotConnected`."""
        own = self._messenger.own_address
        if own is None or not self._messenger.is_reachable(node):
            return fail(NotConnected(f"{node} is unreachable"))
        number = self._messenger.next_request_number()
        ranges = tuple((origin, *each) for origin, each in request.ranges.items())
        message = FetchPage(
            *(node, own, MAX_HOPS, number, request.client_id),
            EVERYTHING_LOGGED if request.allow_partial else request.name,
            *(request.pattern.text, request.query.text, dict(request.query.namespaces)),
            *(request.clearance, ranges, request.serial),
        )
        pending = self._pending[number] = _PendingRequest(message, self._clock.seconds() + TIMEOUT)
        self._send_request(pending)
        return pending.answer

    def _send_request(self, pending: _PendingRequest) -> None:
        node, left = pending.message.target, pending.deadline - self._clock.seconds()
        if left <= 0:
            silent = PeerSilent(f"{node} sent no page in {TIMEOUT:g} seconds")
            self._complete(pending.message.request, silent)
            return
        self._messenger.send(pending.message)
        pending.retry = self._clock.callLater(min(RETRY_AFTER, left), self._send_request, pending)

    def _receive_page(self, message: PageFetched) -> None:
        from_wire = message.error
        if from_wire[0]:
            self._complete(message.request, NotConnected(f"{message.source}: {from_wire[1]}"))
            return
        try:
            events = unpack_events(message.chunks)
        except BrokerError as error:
            self._complete(message.request, error)
            return
        reached = dict(Position.from_wire(message.reached).marks)
        begins = Position.from_wire(message.begins).marks
        page = Page(events, reached, message.next, begins=begins, origin=message.origin)
        self._complete(message.request, page)

    def _complete(self, number: int, result: Page | BrokerError) -> None:
        pending = self._pending.pop(number, None)
        if pending is None:
            return
        if pending.retry is not None and pending.retry.active():
            pending.retry.cancel()
        if isinstance(result, BrokerError):
            pending.answer.errback(result)
        else:
            pending.answer.callback(result)

    # ------------------------------------------------------------------ serving

    def _receive_request(self, message: FetchPage) -> None:
        if any(_is_same_request(message, each) for each in (self._reading, *self._waiting)):
            # A repeated request: the first one will be answered.
            return
        if len(self._waiting) >= MAX_WAITING:
            self._send_error(message, Overloaded("too many nodes ask for pages"))
            return
        self._waiting.append(message)
        if self._reading is None:
            Deferred.fromCoroutine(self._serve_waiting()).addErrback(
                lambda failure: self.log.failure("reading for other nodes failed", failure)
            )

    async def _serve_waiting(self) -> None:
        try:
            while self._waiting:
                self._reading = self._waiting.popleft()
                await self._serve_request(self._reading)
        finally:
            self._reading = None

    async def _serve_request(self, message: FetchPage) -> None:
        returned = not message.client_id and message.name == EVERYTHING_LOGGED
        try:
            page = await self._page_reader.read_page(
                LogPageRequest(
                    StreamPattern.parse(message.pattern),
                    self._parse_query(message.query, message.namespaces),
                    message.clearance,
                    {origin: (after, upto) for origin, after, upto in message.ranges},
                    message.serial,
                    *(message.client_id, message.name),
                    allow_partial=returned,
                    as_logged=returned,
                    # All versions that send this name support placeholders.
                    placeholders=returned or self._messenger.supports_version(message.source, 2),
                )
            )
        except BrokerError as error:
            self._send_error(message, error)
            return
        cleared = [e for e in page.events if self._messenger.is_cleared(message.source, e.level)]
        self.events_denied += len(page.events) - len(cleared)
        self.pages_served += 1
        own = self._messenger.own_address
        if own is None:
            return
        self._messenger.send(
            PageFetched(
                *(message.source, own, MAX_HOPS, message.request),
                reached=Position(page.reached).to_wire(),
                next=page.next_serial,
                rank=max([event.level for event in cleared], default=0),
                chunks=pack_events(cleared),
                begins=Position(page.begins).to_wire(),
                origin=self._page_reader.origin,
            )
        )

    def _send_error(self, message: FetchPage, error: BrokerError) -> None:
        own = self._messenger.own_address
        if own is not None:
            answer = PageFetched(message.source, own, MAX_HOPS, message.request)
            self._messenger.send(msgspec.structs.replace(answer, error=error.to_wire()))


def _is_same_request(message: FetchPage, other: FetchPage | None) -> bool:
    return other is not None and (message.source, message.request) == (other.source, other.request)
