"""Pages of other nodes' logs: asked for one at a time, and served to others."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

import attrs
from twisted.internet.defer import Deferred, fail
from twisted.logger import Logger

from broker.cluster.address import Address
from broker.cluster.node_messenger import Correspondence
from broker.cluster.traffic.frame import MAX_HOPS
from broker.errors import BrokerError, NotConnected, Overloaded, PeerSilent
from broker.event.place import Position
from broker.event.stream import StreamPattern
from broker.matching.query.query import Query
from broker.recovery.log_page_reader import LogPages, Page, PageRequest
from broker.recovery.messages import RETURNED, FetchPage, PageFetched, pack_events, unpack_events
from broker.transport.clock import IClock, IDelayed

#: Seconds that another node has for a page, which may have to read and match thousands of events.
TIMEOUT = 15.0
#: Seconds after which it is asked again: the question or the answer may have gone down with a link.
ASK_AGAIN = 3.0
#: Pages that wait to be read for other nodes; more are refused.
MOST_WAITING = 1_024


@attrs.define
class _Asked:
    question: FetchPage
    until: float
    answer: Deferred[Page] = attrs.field(factory=Deferred)
    again: IDelayed | None = None


class Fetching:
    """Both sides."""

    log = Logger()

    def __init__(
        self,
        post: Correspondence,
        pages: LogPages,
        parse_query: Callable[[str, Mapping[str, str]], Query],
        clock: IClock,
    ) -> None:
        self._post = post
        self._pages = pages
        self._parse_query = parse_query
        self._clock = clock
        self._asked: dict[int, _Asked] = {}
        self._waiting: deque[FetchPage] = deque()
        self._reading: FetchPage | None = None
        """What is being answered."""
        self.served = 0
        self.denied = 0
        """Events that were left out, since no way to the reader is cleared for them."""
        post.hear(FetchPage, self._serve)
        post.hear(PageFetched, self._fetched)

    # ------------------------------------------------------------------ asking

    def fetch(self, node: Address, request: PageRequest) -> Deferred[Page]:
        """A page of another node's log. Fails with its error, `PeerSilent` or `NotConnected`."""
        own = self._post.own
        if own is None or not self._post.reachable(node):
            return fail(NotConnected(f"there is no way to {node}"))
        number = self._post.next_number()
        ranges = tuple((origin, *each) for origin, each in request.ranges.items())
        question = FetchPage(
            *(node, own, MAX_HOPS, number, request.client_id),
            RETURNED if request.any_origin else request.name,
            *(request.pattern.text, request.query.text, dict(request.query.namespaces)),
            *(request.clearance, ranges, request.serial),
        )
        asked = self._asked[number] = _Asked(question, self._clock.seconds() + TIMEOUT)
        self._ask(asked)
        return asked.answer

    def _ask(self, asked: _Asked) -> None:
        node, left = asked.question.target, asked.until - self._clock.seconds()
        if left <= 0:
            silent = PeerSilent(f"{node} sent no page in {TIMEOUT:g} seconds")
            self._settle(asked.question.request, silent)
            return
        self._post.say(asked.question)
        asked.again = self._clock.callLater(min(ASK_AGAIN, left), self._ask, asked)

    def _fetched(self, message: PageFetched) -> None:
        from_wire = message.error
        if from_wire[0]:
            self._settle(message.request, NotConnected(f"{message.source}: {from_wire[1]}"))
            return
        try:
            events = unpack_events(message.chunks)
        except BrokerError as error:
            self._settle(message.request, error)
            return
        reached = dict(Position.from_wire(message.reached).marks)
        begins = Position.from_wire(message.begins).marks
        page = Page(events, reached, message.next, begins=begins, origin=message.origin)
        self._settle(message.request, page)

    def _settle(self, number: int, result: Page | BrokerError) -> None:
        asked = self._asked.pop(number, None)
        if asked is None:
            return
        if asked.again is not None and asked.again.active():
            asked.again.cancel()
        if isinstance(result, BrokerError):
            asked.answer.errback(result)
        else:
            asked.answer.callback(result)

    # ------------------------------------------------------------------ answering

    def _serve(self, message: FetchPage) -> None:
        if any(_same(message, each) for each in (self._reading, *self._waiting)):
            # It is asked again, and will be answered.
            return
        if len(self._waiting) >= MOST_WAITING:
            self._refuse(message, Overloaded("too many nodes ask for pages"))
            return
        self._waiting.append(message)
        if self._reading is None:
            Deferred.fromCoroutine(self._serve_all()).addErrback(
                lambda failure: self.log.failure("reading for other nodes failed", failure)
            )

    async def _serve_all(self) -> None:
        try:
            while self._waiting:
                self._reading = self._waiting.popleft()
                await self._serve_one(self._reading)
        finally:
            self._reading = None

    async def _serve_one(self, message: FetchPage) -> None:
        returned = not message.client_id and message.name == RETURNED
        try:
            page = await self._pages.page(
                PageRequest(
                    StreamPattern.parse(message.pattern),
                    self._parse_query(message.query, message.namespaces),
                    message.clearance,
                    {origin: (after, upto) for origin, after, upto in message.ranges},
                    message.serial,
                    *(message.client_id, message.name),
                    any_origin=returned,
                    as_logged=returned,
                    # A node that asks for what is returned is of no earlier version.
                    placeholders=returned or self._post.speaks(message.source, 2),
                )
            )
        except BrokerError as error:
            self._refuse(message, error)
            return
        cleared = [e for e in page.events if self._post.cleared(message.source, e.level)]
        self.denied += len(page.events) - len(cleared)
        self.served += 1
        own = self._post.own
        if own is None:
            return
        self._post.say(
            PageFetched(
                *(message.source, own, MAX_HOPS, message.request),
                reached=Position(page.reached).to_wire(),
                next=page.next,
                rank=max([event.level for event in cleared], default=0),
                chunks=pack_events(cleared),
                begins=Position(page.begins).to_wire(),
                origin=self._pages.origin,
            )
        )

    def _refuse(self, message: FetchPage, error: BrokerError) -> None:
        own = self._post.own
        if own is not None:
            answer = PageFetched(message.source, own, MAX_HOPS, message.request)
            self._post.say(attrs.evolve(answer, error=error.to_wire()))


def _same(message: FetchPage, other: FetchPage | None) -> bool:
    return other is not None and (message.source, message.request) == (other.source, other.request)
