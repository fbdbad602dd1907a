"""Requests for pages are repeated until the page comes, and each is answered once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import attrs
import msgspec
import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from broker.cluster.address import Address
from broker.cluster.remote_interest import SHARES_OF_DESTINATION
from broker.cluster.traffic.messages import RoutedMessage
from broker.cluster.traffic.version import PROOF_VERSION
from broker.errors import (
    BadSignature,
    NotConnected,
    Overloaded,
    PeerSilent,
    ProtocolError,
)
from broker.event.annotation import with_annotation
from broker.event.place import Position
from broker.event.record import with_proof
from broker.event.stream import StreamPattern
from broker.log.logged_event import LoggedEvent
from broker.matching.query.query import parse_query
from broker.order_certificates.signing_key import SigningKey
from broker.recovery.log_page_reader import LogPageRequest, Page
from broker.recovery.messages import FetchPage, PageFetched, pack_events
from broker.recovery.page_exchange import RETRY_AFTER, TIMEOUT, PageExchange
from tests.recovery.test_log_merge import logged

HERE, THERE = Address(("c",), "here"), Address(("c",), "there")
REQUEST = LogPageRequest(
    StreamPattern.parse(">"), parse_query("true()"), 2, {"o": ((0, 0), (1, 9))}
)


@attrs.define
class Messenger:
    own_address: Address
    clearance: int = 2
    can_reach: bool = True
    version: int = 2
    sent: list[Any] = attrs.field(factory=list)
    attempts: list[int] = attrs.field(factory=list)
    known_origin: str = ""
    """Of the other node; empty: it is in another cluster."""
    listeners: dict[type[RoutedMessage], Callable[[Any], object]] = attrs.field(factory=dict)

    def add_listener(self, kind: type[RoutedMessage], listener: Callable[[Any], object]) -> None:
        self.listeners[kind] = listener

    def send(self, message: RoutedMessage, attempt: int = 0) -> None:
        self.sent.append(message)
        self.attempts.append(attempt)

    def deliver(self, message: RoutedMessage) -> None:
        self.listeners[type(message)](message)

    def is_reachable(self, address: Address) -> bool:
        return self.can_reach

    def is_cleared(self, address: Address, rank: int) -> bool:
        return rank <= self.clearance

    def supports_version(self, address: Address, version: int) -> bool:
        return version <= self.version

    def has_earlier_protocol(self, address: Address, version: int) -> bool:
        return False

    def has_other_log(self, address: Address, origin: str) -> bool:
        return self.known_origin not in ("", origin)

    known_key: bytes = b""
    """Of the other node; empty: it is in another cluster."""
    hops: Sequence[str] = ("next",)
    unanswered: list[str | None] = attrs.field(factory=list)

    def has_key(self, address: Address, key: bytes) -> bool:
        return key == self.known_key

    def next_hop(self, address: Address, attempt: int) -> str | None:
        return self.hops[attempt % len(self.hops)]

    def record_unanswered(self, neighbour: str | None) -> None:
        self.unanswered.append(neighbour)

    def next_request_number(self) -> int:
        return 100 + len(self.sent)


@attrs.define
class Pages:
    """The reading ends when a page is released."""

    reading: list[Deferred[Page]] = attrs.field(factory=list)
    origin: str = "o" * 16
    asked: list[LogPageRequest] = attrs.field(factory=list)
    signed: list[Sequence[LoggedEvent]] = attrs.field(factory=list)

    def sign_own(self, events: Sequence[LoggedEvent]) -> None:
        self.signed.append(events)

    def read_page(self, request: LogPageRequest) -> Deferred[Page]:
        self.asked.append(request)
        self.reading.append(Deferred())
        return self.reading[-1]


def exchange(
    own: Address, clock: Clock, key: SigningKey | None = None
) -> tuple[PageExchange, Messenger, Pages]:
    messenger, pages = Messenger(own), Pages()
    made = PageExchange(
        *(cast(Any, messenger), cast(Any, pages), lambda text, _: parse_query(text), clock),
        key=key,
    )
    return made, messenger, pages


def test_a_lost_request_is_repeated() -> None:
    clock = Clock()
    made, messenger, _ = exchange(HERE, clock)
    received: list[Page] = []
    made.fetch_page(THERE, REQUEST).addCallback(received.append)
    clock.advance(RETRY_AFTER)
    first, second = messenger.sent
    assert first == second
    for _ in range(2):
        messenger.deliver(PageFetched(HERE, THERE, 9, first.request, reached=(("o", 1, 9),)))
    assert received == [Page([], {"o": (1, 9)}, 0)]
    assert not clock.getDelayedCalls()


def test_a_node_without_an_answer_is_peer_silent() -> None:
    clock = Clock()
    made, messenger, _ = exchange(HERE, clock)
    failed: list[Failure] = []
    made.fetch_page(THERE, REQUEST).addErrback(failed.append)
    clock.pump([RETRY_AFTER] * round(TIMEOUT / RETRY_AFTER))
    assert [each.type for each in failed] == [PeerSilent]
    assert len(messenger.sent) == TIMEOUT / RETRY_AFTER
    assert not clock.getDelayedCalls()


@pytest.mark.parametrize("others", [0, 1], ids=["read", "waiting"])
def test_a_repeated_request_is_answered_once(others: int) -> None:
    _, messenger, pages = exchange(THERE, Clock())
    asker, asked, _ = exchange(HERE, Clock())
    for _ in range(1 + others):
        asker.fetch_page(THERE, REQUEST)
    for question in asked.sent:
        messenger.deliver(question)
    # Another route has another number of hops.
    messenger.deliver(msgspec.structs.replace(asked.sent[-1], hops=3))
    for number in range(1 + others):
        assert len(pages.reading) == number + 1
        pages.reading[number].callback(Page([], {"o": (1, 9)}, 0))
    assert [answer.request for answer in messenger.sent] == [each.request for each in asked.sent]
    # The answer may have been lost.
    messenger.deliver(asked.sent[-1])
    assert len(pages.reading) == 2 + others


def test_queries_of_a_node_count_for_its_own_few_shares() -> None:
    _, messenger, pages = exchange(THERE, Clock())
    for name in ("here", "elsewhere"):
        asker, asked, _ = exchange(Address(("c",), name), Clock())
        for number in range(20):
            query = parse_query(f"/a = {number}")
            asker.fetch_page(THERE, attrs.evolve(REQUEST, query=query))
            messenger.deliver(asked.sent[-1])
            pages.reading[-1].callback(Page([], {"o": (1, 9)}, 0))
    holders = [each.holder for each in pages.asked]
    parts = set(holders[:20]), set(holders[20:])
    assert [len(part) for part in parts] == [SHARES_OF_DESTINATION] * 2
    assert not parts[0] & parts[1]


def test_errors_of_the_other_node_come_at_once() -> None:
    clock, key = Clock(), SigningKey.generate()
    asker, asked, _ = exchange(HERE, clock)
    asked.known_key = key.public.raw
    server, messenger, pages = exchange(THERE, Clock(), key)
    failed: list[Failure] = []
    for _ in range(2):
        asker.fetch_page(THERE, REQUEST).addErrback(failed.append)
    for question in asked.sent:
        messenger.deliver(question)
    pages.reading[0].errback(Overloaded("a DTD is looked for"))
    asked.deliver(messenger.sent[0])
    assert failed[0].check(NotConnected) and "a DTD is looked for" in str(failed[0].value)
    pages.reading[1].callback(Page([], {"o": (1, 9)}, 0))
    assert messenger.sent[1].level == 0 and server.pages_served == 1
    asked.deliver(msgspec.structs.replace(messenger.sent[1], chunks=(b"damaged",)))
    # A node on the way may have changed it.
    assert len(failed) == 1
    clock.pump([RETRY_AFTER] * round(TIMEOUT / RETRY_AFTER))
    assert failed[1].check(ProtocolError)
    assert not clock.getDelayedCalls()


def test_two_nodes_may_use_the_same_request_number() -> None:
    _, messenger, pages = exchange(THERE, Clock())
    _, asked, _ = exchange(HERE, Clock())
    asker = PageExchange(
        cast(Any, asked), cast(Any, Pages()), lambda text, _: parse_query(text), Clock()
    )
    asker.fetch_page(THERE, REQUEST)
    question: FetchPage = asked.sent[0]
    messenger.deliver(question)
    messenger.deliver(msgspec.structs.replace(question, source=Address(("c",), "third")))
    pages.reading[0].callback(Page([], {}, 0))
    assert len(pages.reading) == 2


@pytest.mark.parametrize("clearance", [0, 1, 2])
def test_a_page_is_read_with_the_clearance_of_its_reader(clearance: int) -> None:
    asker, asked, _ = exchange(HERE, Clock())
    _, messenger, pages = exchange(THERE, Clock())
    asker.fetch_page(THERE, attrs.evolve(REQUEST, clearance=clearance))
    messenger.deliver(asked.sent[0])
    assert [request.clearance for request in pages.asked] == [clearance]


@pytest.mark.parametrize("clearance", [0, 1, 2])
def test_a_page_has_only_events_cleared_for_the_route(clearance: int) -> None:
    asker, asked, _ = exchange(HERE, Clock())
    server, messenger, pages = exchange(THERE, Clock())
    received: list[Page] = []
    asker.fetch_page(THERE, REQUEST).addCallback(received.append)
    messenger.clearance = clearance
    messenger.deliver(asked.sent[0])
    events = [attrs.evolve(logged("o", n, n, "p", n), level=n - 1) for n in (1, 2, 3)]
    pages.reading[0].callback(Page(events, {"o": (1, 3)}, 0))
    (answer,) = messenger.sent
    # Links check only this.
    assert answer.level == clearance
    assert server.events_denied == 2 - clearance
    asked.deliver(answer)
    assert [event.offset for event in received[0].events] == list(range(1, clearance + 2))
    assert received[0].reached == {"o": (1, 3)}


def test_a_page_with_a_forged_event_is_no_answer() -> None:
    _, asked, _ = exchange(HERE, Clock())
    clock = Clock()
    checked: list[tuple[str, int, str, int]] = []

    def accepts(flow: str, events: Sequence[LoggedEvent], sender: str, version: int) -> bool:
        checked.append((flow, len(events), sender, version))
        return flow == "o" * 16

    asker = PageExchange(
        cast(Any, asked), cast(Any, Pages()), lambda text, _: parse_query(text), clock, accepts
    )
    received: list[Page | Failure] = []
    asker.fetch_page(THERE, REQUEST).addBoth(received.append)
    number = asked.sent[0].request
    events = [logged(origin * 16, 1, 1, "p", 1) for origin in "oox"]
    forged = PageFetched(HERE, THERE, 9, number, chunks=pack_events(events))
    malformed = PageFetched(HERE, THERE, 9, number, chunks=(b"no chunk",))
    for each in (forged, malformed, forged):
        asked.deliver(each)
    assert (
        checked
        == [("o" * 16, 2, THERE.node, PROOF_VERSION), ("x" * 16, 1, THERE.node, PROOF_VERSION)] * 2
    )
    assert asked.attempts == [0] and not received
    clock.advance(RETRY_AFTER)
    assert asked.attempts == [0, 1], "over another route"
    page = PageFetched(HERE, THERE, 9, number, chunks=pack_events(events[:2]))
    asked.deliver(page)
    assert isinstance(received[0], Page) and len(received[0].events) == 2
    assert not clock.getDelayedCalls()
    # All routes bring forged pages.
    asker.fetch_page(THERE, REQUEST).addBoth(received.append)
    for _ in range(round(TIMEOUT / RETRY_AFTER)):
        asked.deliver(msgspec.structs.replace(forged, request=asked.sent[-1].request))
        clock.advance(RETRY_AFTER)
    assert isinstance(received[1], Failure) and received[1].check(BadSignature)


def test_a_page_ends_at_the_last_trusted_place_of_a_revoked_log() -> None:
    _, asked, _ = exchange(HERE, Clock())
    accept = cast(Any, lambda *_: True)
    asker = PageExchange(
        *(cast(Any, asked), cast(Any, Pages()), lambda text, _: parse_query(text), Clock()),
        *(accept, None, {"o": (1, 2)}),
    )
    received: list[Page] = []
    asker.fetch_page(THERE, REQUEST).addCallback(received.append)
    events = [logged(origin, n, n, "p", n) for origin in "ox" for n in (1, 2, 3)]
    reached = Position({"o": (1, 9), "x": (1, 9)}).to_wire()
    number = asked.sent[0].request
    asked.deliver(PageFetched(HERE, THERE, 9, number, reached=reached, chunks=pack_events(events)))
    assert [(each.origin, each.offset) for each in received[0].events] == [
        *(("o", 1), ("o", 2)),
        *(("x", 1), ("x", 2), ("x", 3)),
    ]
    assert received[0].reached == {"o": (1, 2), "x": (1, 9)}


@pytest.mark.parametrize("known", ["", "mine", "victim"])
def test_a_member_can_not_pass_its_log_off_as_another_one(known: str) -> None:
    clock = Clock()
    asker, asked, _ = exchange(HERE, clock)
    asked.known_origin = known
    received: list[Page | Failure] = []
    asker.fetch_page(THERE, REQUEST).addBoth(received.append)
    page = PageFetched(HERE, THERE, 9, asked.sent[0].request, origin="victim")
    asked.deliver(page)
    assert len(received) == (known != "mine")
    clock.pump([RETRY_AFTER] * round(TIMEOUT / RETRY_AFTER))
    assert isinstance(received[0], Failure) is (known == "mine")


def test_repeated_answers_take_other_routes() -> None:
    _, messenger, pages = exchange(THERE, Clock())
    asker, asked, _ = exchange(HERE, Clock())
    asker.fetch_page(THERE, REQUEST)
    for _ in range(3):
        messenger.deliver(asked.sent[0])
        pages.reading[-1].callback(Page([], {}, 0))
    asker.fetch_page(THERE, REQUEST)
    messenger.deliver(asked.sent[1])
    pages.reading[-1].callback(Page([], {}, 0))
    assert messenger.attempts == [0, 1, 2, 0]


def test_an_unreachable_node_is_not_asked() -> None:
    made, messenger, _ = exchange(HERE, Clock())
    messenger.can_reach = False
    failed: list[Failure] = []
    made.fetch_page(THERE, REQUEST).addErrback(failed.append)
    assert [each.type for each in failed] == [NotConnected]
    assert messenger.sent == []


@pytest.mark.parametrize(
    ("version", "returned", "placeholders"),
    [(2, False, True), (1, False, False), (1, True, True)],
)
def test_only_new_nodes_get_placeholders(version: int, returned: bool, placeholders: bool) -> None:
    asker, asked, _ = exchange(HERE, Clock())
    _, messenger, pages = exchange(THERE, Clock())
    messenger.version = version
    asker.fetch_page(THERE, attrs.evolve(REQUEST, allow_partial=returned))
    messenger.deliver(asked.sent[0])
    (request,) = pages.asked
    assert (request.placeholders, request.as_logged) == (placeholders, returned)


@pytest.mark.parametrize(
    ("version", "returned", "annotation", "proof"),
    [
        (PROOF_VERSION, False, b"a", b"p"),
        (3, False, b"a", b""),
        (2, False, b"", b""),
        (2, True, b"a", b"p"),
    ],
)
@pytest.mark.parametrize("is_member", [True, False])
def test_a_page_has_the_elements_of_the_readers_version(
    version: int, returned: bool, annotation: bytes, proof: bytes, is_member: bool
) -> None:
    """An origin that restores its events of any version makes their records anew. The version of a
    node of another cluster is that in its request."""
    asker, asked, _ = exchange(HERE, Clock())
    _, messenger, pages = exchange(THERE, Clock())
    messenger.version = version if is_member else 1
    received: list[Page] = []
    request = attrs.evolve(REQUEST, allow_partial=returned, client_id="")
    asker.fetch_page(THERE, request).addCallback(received.append)
    messenger.deliver(asked.sent[0].at_version(version))
    event = logged("o", 1, 1, "p", 1)
    stored = with_proof(with_annotation(event.record, b"a"), b"p")
    pages.reading[0].callback(Page([attrs.evolve(event, record=stored)], {"o": (1, 1)}, 0))
    asked.deliver(messenger.sent[0])
    (found,) = received[0].events
    assert [len(each) for each in pages.signed] == [1]
    if not is_member and version == 3:
        annotation = b""
    assert found.record == with_proof(with_annotation(event.record, annotation), proof)
