"""A node signs its pages: those of nodes on the way do not replace them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import msgspec
import pytest
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from broker.cluster import messages
from broker.cluster.traffic.version import PROOF_VERSION, SIGNED_PAGE_VERSION
from broker.errors import NotConnected
from broker.event.origin import new_origin
from broker.order_certificates.signing_key import SigningKey
from broker.recovery.log_page_reader import Page
from broker.recovery.messages import FetchPage, PageFetched, PageSignature, pack_events
from broker.recovery.page_exchange import RETRY_AFTER
from broker.recovery.signed_page import sign_page
from tests.recovery.test_log_merge import logged
from tests.recovery.test_page_exchange import HERE, REQUEST, THERE, exchange

KEY, FALSE_KEY = SigningKey.generate(), SigningKey.generate()
LOG = new_origin(0, KEY.public.raw)
SIGNED = attrs.evolve(REQUEST, ranges={LOG: ((0, 0), (1, 9))})


class Asking:
    """A request for a page of a log whose name belongs to a key."""

    def __init__(self, known_key: bytes = b"", hops: Sequence[str] = ("next",)) -> None:
        self.clock = Clock()
        self.received: list[Page | Failure] = []
        asker, self.asked, _ = exchange(HERE, self.clock)
        self.asked.known_key, self.asked.hops = known_key, hops
        asker.fetch_page(THERE, SIGNED).addBoth(self.received.append)
        self.request: FetchPage = self.asked.sent[0]

    def page(self, key: SigningKey | None, *offsets: int, **fields: Any) -> PageFetched:
        """Return a page with some events. Without a key it is not signed."""
        events = [logged(LOG, n, n, "p", n) for n in offsets]
        fields = {"reached": ((LOG, 1, 9),), "origin": LOG, **fields}
        first = HERE, THERE, 9, self.request.request
        made = PageFetched(*first, chunks=pack_events(events), **fields)
        return made if key is None else sign_page(key, self.request, made)

    def deliver(self, *answers: PageFetched) -> None:
        for each in answers:
            self.asked.deliver(each)

    def offsets(self) -> list[int]:
        (page,) = self.received
        assert isinstance(page, Page)
        return [event.offset for event in page.events]


def test_a_page_of_the_owner_of_the_log_is_proven() -> None:
    asking = Asking()
    asking.deliver(asking.page(KEY, 1, 2))
    (page,) = asking.received
    assert isinstance(page, Page) and page.is_proven and asking.offsets() == [1, 2]
    assert asking.asked.attempts == [0]


def test_a_page_of_another_log_is_proven_by_the_key_of_a_member() -> None:
    for known_key, is_proven in ((FALSE_KEY.public.raw, True), (b"", False)):
        asking = Asking(known_key)
        page = asking.page(FALSE_KEY, 1, origin="f" * 16)
        asking.deliver(page)
        asking.deliver(*[page] * (not is_proven))
        assert isinstance(asking.received[0], Page)
        assert asking.received[0].is_proven is is_proven
        assert len(asking.asked.sent) == 1 + (not is_proven)


@pytest.mark.parametrize("key", [None, FALSE_KEY])
def test_an_unproven_page_does_not_replace_that_of_another_route(key: SigningKey | None) -> None:
    asking = Asking(hops=("one", "two", "three"))
    asking.deliver(asking.page(key))
    assert asking.asked.attempts == [0, 1] and not asking.received, "at once"
    assert not asking.asked.unanswered
    asking.deliver(asking.page(KEY, 1, 2))
    assert asking.offsets() == [1, 2]
    assert asking.asked.unanswered == ["one"], "it or a node behind it has answered falsely"


def test_unproven_pages_of_all_routes_are_united() -> None:
    asking = Asking(hops=("one", "two", "three"))
    asking.deliver(
        asking.page(None, 2, 3, reached=((LOG, 1, 3),), next=7, origin="f" * 16),
        asking.page(None, 1, 3, reached=((LOG, 1, 9),), origin="e" * 16),
        asking.page(None, reached=((LOG, 1, 5),), next=8, origin="f" * 16),
    )
    (page,) = asking.received
    assert isinstance(page, Page) and not page.is_proven
    assert asking.offsets() == [1, 2, 3]
    assert (page.reached, page.next_serial, page.origin) == ({LOG: (1, 3)}, 7, "")


@pytest.mark.parametrize(
    "change",
    [
        {"reached": ((LOG, 1, 8),)},
        {"begins": ((LOG, 1, 8),)},
        {"next": 5},
        {"chunks": ()},
        {"error": ("overloaded", "", 0, 0)},
    ],
    ids=lambda change: "-".join(change),
)
def test_a_changed_page_is_no_answer(change: dict[str, Any]) -> None:
    asking = Asking()
    asking.deliver(msgspec.structs.replace(asking.page(KEY, 1, 2), **change))
    assert not asking.received and asking.asked.attempts == [0]
    asking.deliver(asking.page(KEY, 1, 2))
    assert asking.offsets() == [1, 2]


def test_a_page_for_a_changed_request_is_no_answer() -> None:
    asking = Asking()
    for change in ({"query": "/other"}, {"serial": 3}, {"clearance": 0}, {"ranges": ()}):
        changed = msgspec.structs.replace(asking.request, **change)
        asking.deliver(sign_page(KEY, changed, asking.page(None, 1, 2)))
    assert not asking.received
    with_hops = msgspec.structs.replace(asking.request, hops=1, version=0)
    asking.deliver(sign_page(KEY, with_hops, asking.page(None, 1, 2)))
    assert asking.offsets() == [1, 2]


def test_an_error_that_is_not_proven_is_one_of_another_route() -> None:
    asking = Asking(hops=("one", "two"))
    error = asking.page(FALSE_KEY, error=("overloaded", "busy", 0, 0), origin="f" * 16)
    asking.deliver(error)
    assert not asking.received and asking.asked.attempts == [0, 1]
    asking.deliver(error)
    (failure,) = asking.received
    assert isinstance(failure, Failure) and failure.check(NotConnected)


def test_a_link_of_an_earlier_version_gets_no_signature() -> None:
    page = Asking().page(KEY, 1)
    assert page.at_version(SIGNED_PAGE_VERSION) is page
    earlier = page.at_version(PROOF_VERSION)
    assert earlier.signature is None
    assert len(msgspec.msgpack.decode(messages.encode(earlier)[1:])) == 11
    assert messages.decode(messages.encode(page)) == page


def test_the_signature_is_the_last_element() -> None:
    signature = PageSignature(b"k" * 32, b"s" * 64)
    page = PageFetched(HERE, THERE, 9, 5, signature=signature)
    plain = messages.encode(msgspec.structs.replace(page, signature=None))
    elements = bytes.fromhex("92c420" + "6b" * 32 + "c440" + "73" * 64)
    assert plain[:2].hex() == "849b"
    assert messages.encode(page) == bytes.fromhex("849c") + plain[2:] + elements


def test_a_neighbour_without_an_answer_is_named() -> None:
    asking = Asking(hops=("one", "two"))
    asking.clock.advance(RETRY_AFTER)
    asking.deliver(asking.page(KEY, 1))
    assert asking.asked.unanswered == ["one"]
