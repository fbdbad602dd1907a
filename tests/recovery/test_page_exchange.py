"""Pages are asked of other nodes until they come; each question is answered once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import attrs
import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from broker.cluster.address import Address
from broker.cluster.traffic.messages import RoutedMessage
from broker.errors import BrokerError, NotConnected, Overloaded, PeerSilent
from broker.event.stream import StreamPattern
from broker.matching.query.query import parse_query
from broker.recovery.log_page_reader import LogPageRequest, Page
from broker.recovery.messages import FetchPage, PageFetched
from broker.recovery.page_exchange import RETRY_AFTER, TIMEOUT, PageExchange
from tests.recovery.test_log_merge import logged

HERE, THERE = Address(("c",), "here"), Address(("c",), "there")
REQUEST = LogPageRequest(
    StreamPattern.parse(">"), parse_query("true()"), 2, {"o": ((0, 0), (1, 9))}
)


@attrs.define
class Post:
    """What is said is kept."""

    own_address: Address
    clearance: int = 2
    """Of the way to any other node."""
    can_reach: bool = True
    version: int = 2
    """Of all other nodes."""
    said: list[Any] = attrs.field(factory=list)
    listeners: dict[type[RoutedMessage], Callable[[Any], object]] = attrs.field(factory=dict)

    def add_listener(self, kind: type[RoutedMessage], listener: Callable[[Any], object]) -> None:
        self.listeners[kind] = listener

    def send(self, message: RoutedMessage) -> None:
        self.said.append(message)

    def tell(self, message: RoutedMessage) -> None:
        """A message comes."""
        self.listeners[type(message)](message)

    def is_reachable(self, address: Address) -> bool:
        return self.can_reach

    def is_cleared(self, address: Address, rank: int) -> bool:
        return rank <= self.clearance

    def supports_version(self, address: Address, version: int) -> bool:
        return version <= self.version

    def next_request_number(self) -> int:
        return 100 + len(self.said)


@attrs.define
class Pages:
    """Pages that are being read until they are let go."""

    reading: list[Deferred[Page]] = attrs.field(factory=list)
    origin: str = "o" * 16
    asked: list[LogPageRequest] = attrs.field(factory=list)

    def read_page(self, request: LogPageRequest) -> Deferred[Page]:
        self.asked.append(request)
        self.reading.append(Deferred())
        return self.reading[-1]


def fetching(own: Address, clock: Clock) -> tuple[PageExchange, Post, Pages]:
    post, pages = Post(own), Pages()
    made = PageExchange(cast(Any, post), cast(Any, pages), lambda text, _: parse_query(text), clock)
    return made, post, pages


def test_a_question_that_got_lost_is_asked_again() -> None:
    clock = Clock()
    made, post, _ = fetching(HERE, clock)
    came: list[Page] = []
    made.fetch_page(THERE, REQUEST).addCallback(came.append)
    clock.advance(RETRY_AFTER)
    first, second = post.said
    assert first == second
    for _ in range(2):
        post.tell(PageFetched(HERE, THERE, 9, first.request, reached=(("o", 1, 9),)))
    assert came == [Page([], {"o": (1, 9)}, 0)]
    assert not clock.getDelayedCalls()


def test_who_never_answers_is_silent() -> None:
    clock = Clock()
    made, post, _ = fetching(HERE, clock)
    failed: list[BaseException] = []
    made.fetch_page(THERE, REQUEST).addErrback(lambda failure: failed.append(failure.value))
    clock.pump([RETRY_AFTER] * round(TIMEOUT / RETRY_AFTER))
    assert [type(error) for error in failed] == [PeerSilent]
    assert len(post.said) == TIMEOUT / RETRY_AFTER
    assert not clock.getDelayedCalls()


@pytest.mark.parametrize("others", [0, 1], ids=["read", "waiting"])
def test_what_is_asked_again_while_it_is_read_is_answered_once(others: int) -> None:
    _, post, pages = fetching(THERE, Clock())
    asker, asked, _ = fetching(HERE, Clock())
    for _ in range(1 + others):
        asker.fetch_page(THERE, REQUEST)
    for question in asked.said:
        post.tell(question)
    # On another way it has passed another number of links.
    post.tell(attrs.evolve(asked.said[-1], hops=3))
    for number in range(1 + others):
        assert len(pages.reading) == number + 1
        pages.reading[number].callback(Page([], {"o": (1, 9)}, 0))
    assert [answer.request for answer in post.said] == [each.request for each in asked.said]
    # The answer may have got lost.
    post.tell(asked.said[-1])
    assert len(pages.reading) == 2 + others


def test_errors_come_at_once_from_either_side() -> None:
    clock = Clock()
    asker, asked, _ = fetching(HERE, clock)
    server, post, pages = fetching(THERE, Clock())
    failed: list[BaseException] = []
    for _ in range(2):
        asker.fetch_page(THERE, REQUEST).addErrback(lambda failure: failed.append(failure.value))
    for question in asked.said:
        post.tell(question)
    pages.reading[0].errback(Overloaded("a DTD is looked for"))
    asked.tell(post.said[0])
    assert isinstance(failed[0], NotConnected) and "a DTD is looked for" in str(failed[0])
    # What was refused does not hold up what waits, and is not counted as served.
    pages.reading[1].callback(Page([], {"o": (1, 9)}, 0))
    assert post.said[1].level == 0 and server.pages_served == 1
    asked.tell(attrs.evolve(post.said[1], chunks=(b"damaged",)))
    assert isinstance(failed[1], BrokerError)
    assert not clock.getDelayedCalls()


def test_two_nodes_may_ask_with_the_same_number() -> None:
    _, post, pages = fetching(THERE, Clock())
    _, asked, _ = fetching(HERE, Clock())
    asker = PageExchange(
        cast(Any, asked), cast(Any, Pages()), lambda text, _: parse_query(text), Clock()
    )
    asker.fetch_page(THERE, REQUEST)
    question: FetchPage = asked.said[0]
    post.tell(question)
    post.tell(attrs.evolve(question, source=Address(("c",), "third")))
    pages.reading[0].callback(Page([], {}, 0))
    assert len(pages.reading) == 2


@pytest.mark.parametrize("clearance", [0, 1, 2])
def test_a_page_is_asked_for_and_read_with_the_clearance_of_who_wants_it(clearance: int) -> None:
    asker, asked, _ = fetching(HERE, Clock())
    _, post, pages = fetching(THERE, Clock())
    asker.fetch_page(THERE, attrs.evolve(REQUEST, clearance=clearance))
    post.tell(asked.said[0])
    assert [request.clearance for request in pages.asked] == [clearance]


@pytest.mark.parametrize("clearance", [0, 1, 2])
def test_a_page_holds_what_a_way_to_the_reader_is_cleared_for(clearance: int) -> None:
    asker, asked, _ = fetching(HERE, Clock())
    server, post, pages = fetching(THERE, Clock())
    came: list[Page] = []
    asker.fetch_page(THERE, REQUEST).addCallback(came.append)
    post.clearance = clearance
    post.tell(asked.said[0])
    events = [attrs.evolve(logged("o", n, n, "p", n), level=n - 1) for n in (1, 2, 3)]
    pages.reading[0].callback(Page(events, {"o": (1, 3)}, 0))
    (answer,) = post.said
    # Links look at this alone.
    assert answer.level == clearance
    assert server.events_denied == 2 - clearance
    asked.tell(answer)
    assert [event.offset for event in came[0].events] == list(range(1, clearance + 2))
    assert came[0].reached == {"o": (1, 3)}


def test_a_node_that_can_not_be_reached_is_not_asked() -> None:
    made, post, _ = fetching(HERE, Clock())
    post.can_reach = False
    failed: list[BaseException] = []
    made.fetch_page(THERE, REQUEST).addErrback(lambda failure: failed.append(failure.value))
    assert [type(error) for error in failed] == [NotConnected]
    assert post.said == []


@pytest.mark.parametrize(
    ("version", "returned", "placeholders"),
    [(2, False, True), (1, False, False), (1, True, True)],
)
def test_only_a_node_that_knows_placeholders_gets_them(
    version: int, returned: bool, placeholders: bool
) -> None:
    asker, asked, _ = fetching(HERE, Clock())
    _, post, pages = fetching(THERE, Clock())
    post.version = version
    asker.fetch_page(THERE, attrs.evolve(REQUEST, allow_partial=returned))
    post.tell(asked.said[0])
    (request,) = pages.asked
    assert (request.placeholders, request.as_logged) == (placeholders, returned)
