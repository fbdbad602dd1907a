"""Pages of logs: fetched from other nodes one at a time, and served to them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TypeAlias

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from broker.cluster.address import Address
from broker.cluster.fair_queue import FairQueue
from broker.cluster.node_messenger import NodeMessenger
from broker.cluster.node_requests import NodeRequests
from broker.cluster.remote_interest import share_of_destination
from broker.cluster.traffic.frame import MAX_HOPS
from broker.cluster.traffic.version import (
    FLOW_VERSION,
    PROOF_VERSION,
    SIGNED_PAGE_VERSION,
    record_fields,
)
from broker.errors import (
    BadSignature,
    BrokerError,
    NotConnected,
    Overloaded,
    PeerSilent,
    ProtocolError,
)
from broker.event.flow import origin_of
from broker.event.origin import is_signed_origin, origin_has_key
from broker.event.place import Mark, Position
from broker.event.stream import StreamPattern
from broker.log.logged_event import LoggedEvent, events_with_fields
from broker.matching.query.query import Query
from broker.order_certificates.signing_key import SigningKey
from broker.recovery.log_page_reader import LogPageReader, LogPageRequest, Page
from broker.recovery.messages import (
    EVERYTHING_LOGGED,
    FetchPage,
    PageFetched,
    pack_events,
    unpack_events,
)
from broker.recovery.page_union import unite_pages
from broker.recovery.signed_page import find_signer, sign_page
from broker.transport.clock import IClock

#: Seconds.
TIMEOUT = 15.0
#: Seconds until a request, maybe lost by a link, is repeated.
RETRY_AFTER = 3.0
MOST_ATTEMPTS = round(TIMEOUT / RETRY_AFTER)
#: If an answer is not proven. The answers to two requests take different routes.
FEWEST_ATTEMPTS = 2
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
        key: SigningKey | None = None,
        revoked: Mapping[str, Mark] = {},  # never changed
    ) -> None:
        """`accepts` checks the signatures of the events of a page. `key` is the node's. `revoked`
        has the last trusted places of revoked logs: pages end there."""
        self._key = key
        self._messenger = messenger
        self._page_reader = pages
        self._parse_query = parse_query
        self._accepts = accepts
        self._revoked = revoked
        self._clock = clock
        self._requests = NodeRequests(messenger, clock, PageFetched)
        self._waiting: FairQueue[int, FetchPage] = FairQueue(MAX_WAITING)
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
        unproven: list[Page] = []
        hops: list[str | None] = []
        """Of attempts with an answer that is not proven."""
        is_answered = False
        for attempt in range(MOST_ATTEMPTS):
            hop = self._messenger.next_hop(node, attempt)
            if attempt >= FEWEST_ATTEMPTS and hop in hops and is_answered:
                break
            is_answered = False
            until = self._clock.seconds() + RETRY_AFTER
            answer = await self._requests.send(message, RETRY_AFTER, attempt)
            while answer is not None:
                # A node on the way may have made or changed it. Without a proof another route
                # is asked too.
                try:
                    page = self._check_page(message, answer)
                except ProtocolError as bad:
                    error = bad
                    answer = await self._requests.wait(message, until - self._clock.seconds())
                    continue
                except _NodeError as refused:
                    error = refused.error
                    if refused.is_proven:
                        raise error from None
                else:
                    if page.is_proven:
                        self._record_unanswered(hops)
                        return page
                    unproven.append(page)
                is_answered = True
                hops.append(hop)
                break
            else:
                self._record_unanswered([hop])
        if unproven:
            return unite_pages(unproven, request.serial)
        raise error

    def _record_unanswered(self, hops: Iterable[str | None]) -> None:
        """Name the neighbours over which no true answer came: they, or nodes behind them, drop
        messages or answer falsely."""
        for each in hops:
            self._messenger.record_unanswered(each)

    def _check_page(self, request: FetchPage, answer: PageFetched) -> Page:
        """Raise `ProtocolError` for a forged or malformed page, and `_NodeError` for an error."""
        node, key = request.target, find_signer(request, answer)
        code, text, *_ = answer.error
        if code:
            is_proven = key is not None and self._is_of_node(node, answer.origin, key)
            raise _NodeError(NotConnected(f"{node}: {text}"), is_proven)
        page = _unpack_page(answer)
        if page.origin and self._messenger.has_other_log(node, page.origin):
            # Its answer would end the wait for the node with that log.
            raise BadSignature(f"{node} passes its log off as {page.origin}")
        page = _cut_revoked(page, self._revoked)
        self._check_events(node, page)
        claimed = {page.origin, *map(origin_of, (*page.reached, *page.begins))}
        is_proven = all(self._is_proven(node, origin, key) for origin in claimed)
        return attrs.evolve(page, is_proven=is_proven)

    def _is_proven(self, node: Address, origin: str, key: bytes | None) -> bool:
        """Return whether a node's statement about a log counts."""
        if not is_signed_origin(origin):
            return True
        if key is None:
            # An earlier version of the own cluster, which is trusted.
            return self._messenger.has_earlier_protocol(node, SIGNED_PAGE_VERSION)
        return self._is_of_node(node, origin, key)

    def _is_of_node(self, node: Address, origin: str, key: bytes) -> bool:
        return origin_has_key(origin, key) or self._messenger.has_key(node, key)

    def _check_events(self, node: Address, page: Page) -> None:
        """Raises `BadSignature`."""
        is_earlier = self._messenger.has_earlier_protocol(node, PROOF_VERSION)
        version = FLOW_VERSION if is_earlier else PROOF_VERSION
        for origin, run in groupby(page.events, key=attrgetter("origin")):
            if not self._accepts(origin, list(run), node.node, version):
                raise BadSignature(f"{node} sent a forged event of the log {origin}")

    # ------------------------------------------------------------------ serving

    def _receive_request(self, message: FetchPage) -> None:
        if _is_same_request(message, self._reading):
            return
        dropped = self._waiting.add(message.source, message.request, message)
        if dropped is not None:
            self._send_error(dropped, Overloaded("too many pages are requested"))
        if self._reading is None:
            Deferred.fromCoroutine(self._serve_waiting()).addErrback(
                lambda failure: self.log.failure("reading for other nodes failed", failure)
            )

    async def _serve_waiting(self) -> None:
        try:
            while self._waiting:
                self._reading = self._waiting.take_next()
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
        self._send(
            message,
            PageFetched(
                *(message.source, own, MAX_HOPS, message.request),
                reached=Position(page.reached).to_wire(),
                next=page.next_serial,
                rank=max([event.level for event in cleared], default=0),
                chunks=pack_events(cleared),
                begins=Position(page.begins).to_wire(),
                origin=self._page_reader.origin,
            ),
        )

    def _send(self, request: FetchPage, answer: PageFetched) -> None:
        if self._key is not None:
            answer = sign_page(self._key, request, answer)
        self._messenger.send(answer, self._next_attempt(request))

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
            first = message.source, own, MAX_HOPS, message.request
            origin = self._page_reader.origin
            self._send(message, PageFetched(*first, error=error.to_wire(), origin=origin))


class _NodeError(Exception):
    """A node's error in place of a page."""

    def __init__(self, error: BrokerError, is_proven: bool) -> None:
        super().__init__(str(error))
        self.error = error
        self.is_proven = is_proven


def _unpack_page(message: PageFetched) -> Page:
    events = unpack_events(message.chunks)
    reached = dict(Position.from_wire(message.reached).marks)
    begins = Position.from_wire(message.begins).marks
    return Page(events, reached, message.next, begins=begins, origin=message.origin)


def _cut_revoked(page: Page, revoked: Mapping[str, Mark]) -> Page:
    """Return a page without the places of revoked logs behind the last trusted ones.

    They stay missing. Trusted events of the page do not.
    """
    if not revoked:
        return page

    def cut(flow: str, mark: Mark) -> Mark:
        return min(mark, revoked.get(origin_of(flow), mark))

    events = [each for each in page.events if each.mark == cut(each.origin, each.mark)]
    reached = {flow: cut(flow, mark) for flow, mark in page.reached.items()}
    return attrs.evolve(page, events=events, reached=reached)


def _is_same_request(message: FetchPage, other: FetchPage | None) -> bool:
    return other is not None and (message.source, message.request) == (other.source, other.request)
