"""The client's outbox: order, requeueing, bounds."""

from __future__ import annotations

from typing import Any

import pytest

from broker.client.outbox import BATCH_EVENTS, Outbox
from broker.client.received import Receipt
from broker.errors import BadEnvelope, NotValid, Overloaded, ProtocolError, TooLarge
from broker.event.envelope import MAX_EVENT_TIME
from broker.event.event_id import EventId
from broker.event.place import Place
from broker.wire.event_batch import decode_batch
from broker.wire.messages import STATE_VERSION, Published


def event_id(number: int) -> EventId:
    return EventId("a", 1, number, 1)


def filled(count: int) -> Outbox:
    outbox = Outbox(max_events=10_000, max_bytes=1 << 20)
    for number in range(1, count + 1):
        outbox.add(b"<e/>", event_id(number), number)
    return outbox


def sent(outbox: Outbox) -> list[tuple[int, int]]:
    """Return (batch number, events) of all unsent batches."""
    out = []
    while (message := outbox.next_unsent()) is not None:
        batch = decode_batch(message)
        out.append((batch.number, len(batch.documents)))
    return out


def published(batch: int, accepted: int, first: int = 1) -> Published:
    return Published(batch, (("n", 1, first),), accepted, (), ())


def test_events_added_before_sending_form_one_batch() -> None:
    assert sent(filled(5)) == [(1, 5)]


def test_times_follow_their_events_through_resends_and_refusals() -> None:
    outbox = Outbox(max_events=10, max_bytes=100)
    for number in range(1, 5):
        outbox.add(b"<e%d/>" % number, event_id(number), number, number if number % 2 else None)
    outbox.refuse_unsent(lambda document: NotValid("no") if document == b"<e1/>" else None)
    assert decode_batch(outbox.next_unsent() or b"").times == (None, 3, None)
    outbox.requeue_all()
    # The next node is of an earlier version.
    assert decode_batch(outbox.next_unsent(STATE_VERSION - 1) or b"").times == ()
    outbox.requeue_all()
    assert decode_batch(outbox.next_unsent(STATE_VERSION) or b"").times == (None, 3, None)


@pytest.mark.parametrize("time", [-1, MAX_EVENT_TIME + 1, True, 1.5, "1"])
def test_a_time_out_of_range_is_not_queued(time: Any) -> None:
    outbox = Outbox(max_events=10, max_bytes=100)
    with pytest.raises(BadEnvelope, match="is not from 0 to"):
        outbox.add(b"<e/>", event_id(1), 1, time)
    assert (outbox.events, outbox.has_unsent) == (0, False)


def test_a_batch_is_closed_when_it_is_full() -> None:
    assert sent(filled(BATCH_EVENTS + 1)) == [(1, BATCH_EVENTS), (2, 1)]


def test_an_answered_batch_gives_each_event_its_place() -> None:
    outbox = filled(2)
    sent(outbox)
    results = outbox.settle_batch(published(1, 2, first=7))
    assert results == [
        (1, Receipt(event_id(1), Place("n", 1, 7))),
        (2, Receipt(event_id(2), Place("n", 1, 8))),
    ]
    assert (outbox.events, outbox.bytes) == (0, 0)


def test_refused_and_duplicate_events_take_no_place() -> None:
    outbox = filled(4)
    sent(outbox)
    wire = NotValid("no", line=3).to_wire()
    results = dict(outbox.settle_batch(Published(1, (("n", 1, 7),), 2, (1,), ((2, wire),))))
    assert results[1] == Receipt(event_id(1), Place("n", 1, 7))
    assert results[2] == Receipt(event_id(2), None, duplicate=True)
    assert isinstance(results[3], NotValid)
    assert results[4] == Receipt(event_id(4), Place("n", 1, 8))


def test_events_between_those_of_others_have_the_places_of_the_answer() -> None:
    outbox = filled(6)
    sent(outbox)
    wire = NotValid("no").to_wire()
    answer = Published(1, (("n", 1, 7),), 4, (1,), ((4, wire),), ((2, (1, 20)), (5, (2, 20))))
    results = dict(outbox.settle_batch(answer))
    places = [each.place for each in results.values() if isinstance(each, Receipt)]
    assert places == [
        Place("n", 1, 7),
        None,
        Place("n", 1, 20),
        Place("n", 1, 21),
        Place("n", 2, 20),
    ]


def test_a_requeued_batch_is_sent_again_with_all_later_ones() -> None:
    outbox = filled(BATCH_EVENTS * 2 + 1)
    assert [number for number, _ in sent(outbox)] == [1, 2, 3]
    outbox.settle_batch(published(1, BATCH_EVENTS))
    outbox.requeue_from(2)
    outbox.requeue_from(3)
    assert [number for number, _ in sent(outbox)] == [2, 3]


def test_nothing_is_sent_again_before_everything_sent_is_answered() -> None:
    # An answer to the first copy of batch 2 could be taken for the second.
    outbox = filled(BATCH_EVENTS * 2)
    sent(outbox)
    outbox.requeue_from(1)
    assert sent(outbox) == []
    assert not outbox.can_resend
    outbox.requeue_from(2)
    assert outbox.can_resend
    assert [number for number, _ in sent(outbox)] == [1, 2]
    outbox.settle_batch(published(1, BATCH_EVENTS))
    outbox.settle_batch(published(2, BATCH_EVENTS))
    assert outbox.events == 0


def test_batches_before_the_requeued_one_are_settled_normally() -> None:
    outbox = filled(BATCH_EVENTS * 2)
    sent(outbox)
    outbox.requeue_from(2)
    outbox.settle_batch(published(1, BATCH_EVENTS))
    assert [number for number, _ in sent(outbox)] == [2]


def test_an_inconsistent_answer_settles_nothing() -> None:
    outbox = filled(2)
    sent(outbox)
    wire = NotValid("no").to_wire()
    for answer in (
        published(1, 1),
        published(1, 3),
        Published(1, (), 2, (), ()),
        Published(1, (("n", 1, 1),), 1, (7,), ()),
        Published(1, (("n", 1, 1),), 0, (0,), ((0, wire),)),
    ):
        with pytest.raises(ProtocolError):
            outbox.settle_batch(answer)
    assert len(outbox.settle_batch(published(1, 2))) == 2


def test_a_batch_that_was_never_sent_can_not_be_requeued() -> None:
    with pytest.raises(ProtocolError):
        filled(1).requeue_from(1)


def test_a_new_session_gets_everything_unanswered_again_in_order() -> None:
    outbox = filled(BATCH_EVENTS + 1)
    sent(outbox)
    outbox.settle_batch(published(1, BATCH_EVENTS))
    outbox.add(b"<e/>", event_id(9999), "late")
    outbox.requeue_all()
    assert sent(outbox) == [(2, 1), (3, 1)]


def test_an_answer_out_of_order_is_a_protocol_error() -> None:
    outbox = filled(1)
    with pytest.raises(ProtocolError):
        outbox.settle_batch(published(1, 1))
    sent(outbox)
    with pytest.raises(ProtocolError):
        outbox.settle_batch(published(2, 1))


def test_a_full_outbox_rejects_events_and_keeps_its_own() -> None:
    outbox = Outbox(max_events=2, max_bytes=1 << 20)
    outbox.add(b"<e/>", event_id(1), 1)
    outbox.add(b"<e/>", event_id(2), 2)
    with pytest.raises(Overloaded, match="2 events"):
        outbox.add(b"<e/>", event_id(3), 3)
    assert sent(outbox) == [(1, 2)]


def test_bytes_are_bounded_too() -> None:
    outbox = Outbox(max_events=10, max_bytes=6)
    outbox.add(b"<e/>", event_id(1), 1)
    with pytest.raises(Overloaded, match="4 bytes"):
        outbox.add(b"<e/>", event_id(2), 2)


def test_failing_returns_every_waiter_once() -> None:
    outbox = filled(BATCH_EVENTS + 1)
    sent(outbox)
    assert outbox.fail_all() == list(range(1, BATCH_EVENTS + 2))
    assert outbox.fail_all() == []
    assert outbox.events == 0


def test_an_event_over_the_outbox_limit_is_too_large() -> None:
    outbox = Outbox(max_events=10, max_bytes=100)
    with pytest.raises(TooLarge):
        outbox.add(b"x" * 101, event_id(1), 1)
    outbox.add(b"x" * 100, event_id(1), 1)


def test_unsent_batches_are_fitted_to_the_limits_of_another_node() -> None:
    outbox = Outbox(max_events=100, max_bytes=1 << 22)
    sizes = [10, 30_000, 70_000, 30_000, 10, 30_000, 200_000, 10]
    for number, size in enumerate(sizes, 1):
        outbox.add(b"x" * size, event_id(number), number)
    assert [events for _, events in sent(outbox)] == [6, 2]
    outbox.requeue_all()
    refused = outbox.apply_limits(32_000, 64 * 1024)
    assert [(waiter, error.code) for waiter, error in refused] == [
        (3, "too-large"),
        (7, "too-large"),
    ]
    assert (outbox.events, outbox.bytes) == (6, 90_030)
    batches = []
    while (message := outbox.next_unsent()) is not None:
        assert len(message) <= 64 * 1024
        batches.append(decode_batch(message))
    assert [len(batch.documents) for batch in batches] == [2, 2, 2]
    numbers = [batch.number for batch in batches]
    assert numbers == sorted(numbers)
    settled = [
        waiter
        for batch in batches
        for waiter, _ in outbox.settle_batch(published(batch.number, len(batch.documents)))
    ]
    assert settled == [1, 2, 4, 5, 6, 8]
    assert (outbox.events, outbox.bytes) == (0, 0)


def test_limits_that_all_events_fit_change_nothing() -> None:
    outbox = filled(5)
    sent(outbox)
    outbox.requeue_all()
    assert outbox.apply_limits(32_000, 64 * 1024) == []
    assert sent(outbox) == [(1, 5)]
