"""Pages of logs: fetched from other nodes one at a time, and served to them."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TypeAlias

import msgspec
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from broker.cluster.address import Address
from broker.cluster.node_messenger import NodeMessenger
from broker.cluster.node_requests import NodeRequests
from broker.cluster.remote_interest import share_of_destination
from broker.cluster.traffic.frame import MAX_HOPS
from broker.cluster.traffic.version import FLOW_VERSION, PROOF_VERSION, record_fields
from broker.errors import (
    BadSignature,
    BrokerError,
    NotConnected,
    Overloaded,
    PeerSilent,
    ProtocolError,
)
from broker.event.place import Position
from broker.event.stream import StreamPattern
from broker.log.logged_event import LoggedEvent, events_with_fields
from broker.matching.query.query import Query
from broker.recovery.log_page_reader import LogPageReader, LogPageRequest, Page
from broker.recovery.messages import (
    EVERYTHING_LOGGED,
    FetchPage,
    PageFetched,
    pack_events,
    unpack_events,
)
from broker.transport.clock import IClock

#: Seconds.
TIMEOUT = 15.0
#: Seconds until a request, maybe lost by a link, is repeated.
RETRY_AFTER = 3.0
#: More requests are refused.
MAX_WAITING = 1_024
#: Requests whose answers are counted; the next answer to an older one counts as its first.
MAX_ANSWERED = 1_024


#: Returns False if one of the events of a flow is forged. The others are the name of the node
#: that sent them, and the version of its protocol.
AcceptEvents: TypeAlias = Callable[[str, Sequence[LoggedEvent], str, int], bool]


class PageExchange:
    log = Logger()

    def __init__(
        self,
        messenger: NodeMessenger,
        pages: LogPageReader,
        parse_query: Callable[[str, Mapping[str, str]], Query],
        clock: IClock,
        accepts: AcceptEvents = lambda *_: True,
    ) -> None:
        """`accepts` checks the signatures of the events of a page."""
        self._messenger = messenger
        self._page_reader = pages
        self._parse_query = parse_query
        self._accepts = accepts
        self._clock = clock
        self._requests = NodeRequests(messenger, clock, PageFetched)
        self._waiting: deque[FetchPage] = deque()
        self._reading: FetchPage | None = None
        self._answered: OrderedDict[tuple[Address, int], int] = OrderedDict()
        """Attempts to send the answers of the latest requests."""
        self.pages_served = 0
        self.events_denied = 0
        """Events for which no route to the reader is cleared."""
        messenger.add_listener(FetchPage, self._receive_request)

    # ------------------------------------------------------------------ fetching

    def fetch_page(self, node: Address, request: LogPageRequest) -> Deferred[Page]:
        """Fails with the node's error, `PeerSilent`, `NotConnected`, `BadSignature` or another
        `ProtocolError`."""
        return Deferred.fromCoroutine(self._fetch_page(node, request))

    async def _fetch_page(self, node: Address, request: LogPageRequest) -> Page:
        fields = self._requests.first_fields(node)
        if fields is None:
            raise NotConnected(f"{node} is unreachable")
        ranges = tuple((origin, *each) for origin, each in request.ranges.items())
        message = FetchPage(
            *(*fields, request.client_id),
            EVERYTHING_LOGGED if request.allow_partial else request.name,
            *(request.pattern.text, request.query.text, dict(request.query.namespaces)),
            *(request.clearance, ranges, request.serial),
            version=PROOF_VERSION,
        )
        error: BrokerError = PeerSilent(f"{node} sent no page in {TIMEOUT:g} seconds")
        for attempt in range(round(TIMEOUT / RETRY_AFTER)):
            until = self._clock.seconds() + RETRY_AFTER
            answer = await self._requests.send(message, RETRY_AFTER, attempt)
            while answer is not None:
                try:
                    return self._check_page(node, _unpack_page(answer))
                except ProtocolError as bad:
                    # A node on the way may have changed it: the next attempt takes another route.
                    error = bad
                answer = await self._requests.wait(message, until - self._clock.seconds())
        raise error

    def _check_page(self, node: Address, page: Page) -> Page:
        if page.origin and self._messenger.has_other_log(node, page.origin):
            # Its answer would end the wait for the node with that log.
            raise BadSignature(f"{node} passes its log off as {page.origin}")
        is_earlier = self._messenger.has_earlier_protocol(node, PROOF_VERSION)
        version = FLOW_VERSION if is_earlier else PROOF_VERSION
        for origin, run in groupby(page.events, key=attrgetter("origin")):
            if not self._accepts(origin, list(run), node.node, version):
                raise BadSignature(f"{node} sent a forged event of the log {origin}")
        return page

    # ------------------------------------------------------------------ serving

    def _receive_request(self, message: FetchPage) -> None:
        if any(_is_same_request(message, each) for each in (self._reading, *self._waiting)):
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
                    # An account's name is of another authority here.
                    share_of_destination(str(message.source), message.query),
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
        self._page_reader.sign_own(cleared)
        self.pages_served += 1
        own = self._messenger.own_address
        if own is None:
            return
        # An origin that restores its events makes their records anew, in each version.
        if not returned:
            cleared = events_with_fields(cleared, self._record_fields(message))
        self._messenger.send(
            PageFetched(
                *(message.source, own, MAX_HOPS, message.request),
                reached=Position(page.reached).to_wire(),
                next=page.next_serial,
                rank=max([event.level for event in cleared], default=0),
                chunks=pack_events(cleared),
                begins=Position(page.begins).to_wire(),
                origin=self._page_reader.origin,
            ),
            self._next_attempt(message),
        )

    def _next_attempt(self, message: FetchPage) -> int:
        key = message.source, message.request
        attempt = self._answered.pop(key, -1) + 1
        self._answered[key] = attempt
        if len(self._answered) > MAX_ANSWERED:
            self._answered.popitem(last=False)
        return attempt

    def _record_fields(self, message: FetchPage) -> int:
        supports, reader = self._messenger.supports_version, message.source
        known = [each for each in (PROOF_VERSION, FLOW_VERSION) if supports(reader, each)]
        return record_fields(max(message.version, *known, 1))

    def _send_error(self, message: FetchPage, error: BrokerError) -> None:
        own = self._messenger.own_address
        if own is not None:
            answer = PageFetched(message.source, own, MAX_HOPS, message.request)
            self._messenger.send(msgspec.structs.replace(answer, error=error.to_wire()))


def _unpack_page(message: PageFetched) -> Page:
    code, text, *_ = message.error
    if code:
        raise NotConnected(f"{message.source}: {text}")
    events = unpack_events(message.chunks)
    reached = dict(Position.from_wire(message.reached).marks)
    begins = Position.from_wire(message.begins).marks
    return Page(events, reached, message.next, begins=begins, origin=message.origin)


def _is_same_request(message: FetchPage, other: FetchPage | None) -> bool:
    return other is not None and (message.source, message.request) == (other.source, other.request)
