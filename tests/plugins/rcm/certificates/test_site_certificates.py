"""Certificates of events as they are logged, and proofs of them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.event.order_entry import OrderEntry, encode_order_entry
from broker.log.logged_event import encode_header
from broker.order_certificates.certificate import NUMBER_WIDTH, decode_certificate
from broker.order_certificates.leaf import decode_leaf, digest_of
from broker.order_certificates.proof import (
    BlockPage,
    EventProof,
    Outcome,
    verify_block,
    verify_event,
)
from broker.streams.contract import CarriedEvent
from broker.transport.order import MessageId, Stamp
from plugins.rcm.certificates.block_builder import QUIET
from plugins.rcm.certificates.site_certificates import SiteCertificates
from plugins.rcm.delivered_run import read_runs
from tests.plugins.rcm.certificates.group import PINNED, make_builder
from tests.seeds import seeds


def make_event(
    number: int, stamp: int | None, site: str = "b", *, stack: str = "g", is_late: bool = False
) -> CarriedEvent:
    header = Header(
        EventId(f"client-{site}", 1_000 + number, number, 7),
        *("chat.room", "chat", "1.0", SecurityLevel.LOW, Liveness.LIVE),
    )
    entry = OrderEntry(stack, site, 1, number, stamp, "logical", is_late=is_late)
    event = CarriedEvent((1, number), encode_header(header), f"<event>{number}</event>".encode())
    return event.with_annotation(encode_order_entry(entry))


def deliver(site: SiteCertificates, events: Sequence[CarriedEvent], now: float = 1.0) -> None:
    assert site.deliver("flow", read_runs("g", events), now) == []


def make_site(incarnation: int = 1) -> SiteCertificates:
    return SiteCertificates(make_builder(incarnation=incarnation), PINNED, ["b"])


def proof_of(site: SiteCertificates, number: int, sender: str = "b") -> EventProof:
    proof = site.prove_event(f"client-{sender}", 7, number, 100.0)
    assert proof is not None
    return proof


@pytest.mark.parametrize("seed", seeds(10, 200))
def test_each_event_is_proved_as_it_was_delivered(seed: int) -> None:
    random = Random(seed)
    site = make_site()
    late = {number: random.random() < 0.3 for number in range(1, 40)}
    stamps = {number: random.randrange(1_000) for number in late}
    for number, stamp in stamps.items():
        deliver(site, [make_event(number, stamp, is_late=late[number])])
    for number, stamp in stamps.items():
        leaf, outcomes = verify_event(proof_of(site, number), "g", PINNED)
        assert (leaf.stamp, leaf.tie, leaf.site, leaf.number) == (stamp, "b", "b", number)
        assert leaf.digest == digest_of(f"<event>{number}</event>".encode())
        assert [each.outcome for each in outcomes] == [Outcome.PROVED]
        assert outcomes[0].in_time is (None if late[number] else True)
        by_stamp = site.prove_stamp(stamp, "", 100.0)
        assert by_stamp is not None
        assert decode_leaf(by_stamp.leaf).stamp == stamp


@pytest.mark.parametrize("seed", seeds(10, 200))
def test_a_run_has_the_leaves_of_its_events(seed: int) -> None:
    random = Random(seed)
    together, alone = make_site(), make_site()
    stamp = number = 0
    for _ in range(20):
        stamp += random.randrange(1, 200)
        number += random.randrange(1, 3)
        gap = random.randrange(8) if random.random() < 0.5 else 0
        events = []
        for index in range(random.randrange(1, 8)):
            is_beyond = gap and index >= gap
            events.append(make_event(number + index, stamp + index + (is_beyond and 1)))
        stamp, number = stamp + 10, number + 10
        deliver(together, events)
        for event in events:
            deliver(alone, [event])
    for start in range(0, stamp, NUMBER_WIDTH):
        assert together.show_block(start, 0, 2.0) == alone.show_block(start, 0, 2.0)


def test_an_event_inside_of_a_run_may_have_another_place() -> None:
    """A sequencer that lacked the event before it has numbered it."""
    events = [make_event(1, 10), make_event(2, 3, is_late=True), make_event(3, 12)]
    together, alone = make_site(), make_site()
    deliver(together, events)
    for event in events:
        deliver(alone, [event])
    assert proof_of(together, 2).leaf == proof_of(alone, 2).leaf
    assert together.show_block(0, 0, 2.0) == alone.show_block(0, 0, 2.0)


def test_a_block_that_has_changed_is_signed_for_its_proof() -> None:
    site = make_site()
    site.exchange.connect("b", 1.0)
    deliver(site, [make_event(1, 5)])
    first = proof_of(site, 1)
    deliver(site, [make_event(2, 6)])
    second = proof_of(site, 1)
    for proof in (first, second):
        assert verify_event(proof, "g", PINNED)[1][0].outcome is Outcome.PROVED
    assert site.exchange.peers["b"].unsent == {0}


def test_blocks_follow_each_other_in_pages() -> None:
    site = make_site()
    deliver(site, [make_event(number, 5) for number in range(1, 1_101)])
    deliver(site, [make_event(2_000, 5_000)])
    pages: list[BlockPage] = []
    for first in (0, 1_024):
        page = site.show_block(-1_000, first, 100.0)
        assert page is not None
        pages.append(page)
    assert [len(page.leaves) for page in pages] == [1_024, 76]
    leaves = [leaf for page in pages for leaf in page.leaves]
    found, outcomes = verify_block(0, leaves, pages[0].certificates, "g", PINNED)
    assert (len(found), outcomes[0].outcome) == (1_100, Outcome.PROVED)
    assert pages[0].following == 5_000 // 256
    last = site.show_block(300, 0, 100.0)
    assert last is not None
    assert (last.block, last.following) == (5_000 // 256, None)
    assert decode_certificate(last.certificates[0]).certificate.previous == 0
    assert site.show_block(10_000, 0, 100.0) is None


def test_events_of_other_stacks_are_not_certified() -> None:
    site = make_site()
    deliver(site, [make_event(1, 5, stack="other"), make_event(2, 6).with_annotation(b"")])
    assert site.next_timeout() is None


def test_an_event_without_a_stamp_makes_its_block_incomplete() -> None:
    site = make_site()
    deliver(site, [make_event(1, 5), make_event(2, None), make_event(3, 300)])
    site.handle_timeout(1.0 + QUIET)
    signed = [site.exchange.builder.certificate_of(block) for block in (0, 1)]
    assert [each.certificate.has_missing for each in signed if each is not None] == [True, True]


def test_a_malformed_record_makes_its_block_incomplete() -> None:
    site = make_site()
    (run,) = read_runs("g", [make_event(number, number) for number in (1, 2)])
    broken = [run.events[0], run.events[1]._replace(record=b"\x91\xa1a")]
    site.deliver("flow", [run._replace(events=broken)], 1.0)
    deliver(site, [make_event(3, 3)])
    site.handle_timeout(1.0 + QUIET)
    signed = site.exchange.builder.certificate_of(0)
    assert signed is not None
    assert (signed.certificate.count, signed.certificate.has_missing) == (1, True)


def test_unknown_events_have_no_proof() -> None:
    site = make_site()
    assert site.prove_event("client-b", 7, 1, 1.0) is None
    assert site.prove_stamp(5, "", 1.0) is None
    assert site.show_block(5, 0, 1.0) is None


def test_after_a_restart_the_log_gives_the_blocks_back() -> None:
    events = [make_event(number, number * 100, is_late=number == 7) for number in range(1, 20)]
    first, second = make_site(), make_site(incarnation=2)
    deliver(first, events)
    second.restore(read_runs("g", events[5:]), 1.0)
    for site in (first, second):
        site.handle_timeout(1.0 + QUIET)
    for block in range(2, 8):
        before, after = (each.exchange.builder.certificate_of(block) for each in (first, second))
        assert before is not None and after is not None
        # Block 2 has an event before the end of the log.
        assert after.certificate.has_missing is (block == 2)
        if block > 2:
            assert after.certificate.root == before.certificate.root
            assert after.certificate.root_in_time == before.certificate.root_in_time
            assert after.certificate.age > before.certificate.age


def test_an_own_event_that_was_not_delivered_before_the_restart_may_be_late() -> None:
    site = make_site(incarnation=2)
    site.restore(read_runs("g", [make_event(1, 5), make_event(2, 6, "a")]), 1.0)
    deliver(site, [make_event(2, 6, "a", is_late=True)], 2.0)
    proof = proof_of(site, 2, "a")
    assert proof.index_in_time is None
    assert site.exchange.builder.snapshot()["leaves"] == 2


def test_an_event_that_was_not_logged_is_removed_until_it_comes_again() -> None:
    site = make_site()
    deliver(site, [make_event(1, 5), make_event(2, 6), make_event(3, 300)])
    site.handle_timeout(1.0 + QUIET)
    builder = site.exchange.builder
    before = builder.certificate_of(0)
    site.take_back(
        [(MessageId("b", 1, 2), Stamp(6, "b")), (MessageId("b", 1, 9), Stamp(7, "b"))], 5.0
    )
    assert site.prove_event("client-b", 7, 2, 5.0) is None
    site.handle_timeout(10.0)
    without = builder.certificate_of(0)
    deliver(site, [make_event(2, 6, is_late=True)], 11.0)
    site.handle_timeout(20.0)
    after = builder.certificate_of(0)
    assert before is not None and without is not None and after is not None
    assert [each.certificate.count for each in (before, without, after)] == [2, 1, 2]
    assert after.certificate.root == before.certificate.root
    assert after.certificate.count_in_time == 1


def test_a_log_end_of_late_events_only_is_incomplete() -> None:
    site = make_site(incarnation=2)
    events = [make_event(2, 300, is_late=True), make_event(1, 5, is_late=True)]
    site.restore(read_runs("g", events), 1.0)
    assert [site.exchange.builder.is_missing(block) for block in (0, 1, 2)] == [True, True, False]
