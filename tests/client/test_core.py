"""Effects of the client's core for each message and call."""

from __future__ import annotations

import pytest

from broker.client.effects import (
    EventBatch,
    MessagesConsumed,
    PositionMoved,
    PublicationSettled,
    PublishingBlocked,
    Send,
    SubscriptionAccepted,
)
from broker.client.position_reporter import ACKNOWLEDGE_AFTER, ACKNOWLEDGE_EVENTS
from broker.client.received import (
    ALL,
    NEW,
    STORED,
    FlowStarted,
    Gap,
    Receipt,
    Start,
    TypeChanged,
    since,
)
from broker.client.subscription_request import SubscriptionRequest
from broker.errors import BadQuery, LogUnavailable, ProtocolError, VersionMismatch
from broker.event.envelope import Liveness
from broker.event.event_id import EventId
from broker.event.place import Place, Position
from broker.wire import messages
from broker.wire.event_batch import (
    decode_batch,
    encode_delivery,
)
from broker.wire.messages import (
    Acknowledge,
    Ended,
    Flowing,
    NotPublished,
    Progress,
    Published,
    Subscribe,
    Subscribed,
)
from tests.client.node_messages import (
    at,
    consumed,
    delivery,
    flowing_core,
    items_for,
    logged,
    new_core,
    process_items,
    publish,
    receive,
    sent,
    subscribe,
)

# ----------------------------------------------------------------------------- publishing


def test_nothing_is_sent_without_a_session() -> None:
    core = new_core(connected=False)
    publish(core)
    assert core.flush() == []
    core.session_up(False)
    (send,) = core.flush()
    assert isinstance(send, Send) and decode_batch(send.data).documents == [b"<e/>"]
    assert core.flush() == []


def test_a_published_batch_settles_its_waiters_and_returns_its_credit() -> None:
    core = new_core()
    publish(core, 2)
    core.flush()
    error = BadQuery("no").to_wire()
    effects = receive(core, Published(1, (("n", 1, 7),), 1, (), ((1, error),)))
    settled = {e.waiter: e.result for e in effects if isinstance(e, PublicationSettled)}
    assert settled["waiter 1"] == Receipt(EventId("p", 1, 1, 1), Place("n", 1, 7))
    assert isinstance(settled["waiter 2"], BadQuery)
    assert consumed(effects) == 1


def test_a_requeued_batch_is_sent_after_the_given_delay() -> None:
    core = new_core()
    publish(core)
    core.flush()
    error = LogUnavailable("full").to_wire()
    effects = receive(core, NotPublished(1, 1500, error), now=10.0)
    (blocked,) = (effect for effect in effects if isinstance(effect, PublishingBlocked))
    assert isinstance(blocked.error, LogUnavailable)
    assert core.flush() == [] and core.next_timeout() == 11.5
    core.handle_timeout(11.4)
    assert core.flush() == []
    core.handle_timeout(11.5)
    assert len(core.flush()) == 1
    # Reported once at the beginning and at the end.
    assert not any(
        isinstance(e, PublishingBlocked)
        for e in receive(core, NotPublished(1, 1500, error), now=12.0)
    )
    core.handle_timeout(14.0)
    core.flush()
    assert PublishingBlocked(None) in receive(core, Published(1, (("n", 1, 1),), 1, (), ()))


def test_a_batch_after_a_requeued_one_waits_until_all_are_answered() -> None:
    core = new_core()
    publish(core)
    core.flush()
    publish(core)
    core.flush()
    error = LogUnavailable("full").to_wire()
    # The first was already being written.
    receive(core, NotPublished(2, 1000, error), now=0.0)
    core.handle_timeout(5.0)
    assert core.flush() == [] and core.next_timeout() is None
    receive(core, Published(1, (("n", 1, 1),), 1, (), ()), now=6.0)
    assert core.next_timeout() == 6.0
    core.handle_timeout(6.0)
    (send,) = core.flush()
    assert isinstance(send, Send) and decode_batch(send.data).number == 2


# ----------------------------------------------------------------------------- subscribing


def test_a_request_is_sent_unchanged() -> None:
    core = new_core()
    (message,) = sent(subscribe(core, since(at(7)), "d"))
    wire = (("n", 1, 7),)
    assert message == Subscribe(1, "p.>", "q", {"a": "b"}, "d", "position", wire, 0)


def test_a_named_queue_policy_is_sent() -> None:
    core = new_core(version=3)
    request = SubscriptionRequest("q", queue="coalesce:/flight/@id")
    (message,) = sent(core.subscribe(request)[1])
    assert isinstance(message, Subscribe) and message.queue == "coalesce:/flight/@id"


@pytest.mark.parametrize("connected", [True, False])
def test_a_queue_policy_ends_the_subscription_at_an_older_node(connected: bool) -> None:
    core = new_core(version=2 if connected else 3)
    if not connected:
        core.session_down()
    number, effects = core.subscribe(SubscriptionRequest("q", queue="fail"))
    other, _ = core.subscribe(SubscriptionRequest("q"))
    if not connected:
        assert effects == []
        effects = core.session_up(False, version=2)
        assert [each.number for each in sent(effects) if isinstance(each, Subscribe)] == [other]
    (ended,) = items_for(effects, number)
    assert isinstance(ended.error, VersionMismatch)
    assert "too old for the queue policy fail" in str(ended.error)
    assert core.unsubscribe(number) == []


def test_an_ended_durable_subscription_is_deleted_at_an_older_node() -> None:
    core = new_core(version=3)
    number, _ = core.subscribe(SubscriptionRequest("q", durable="d", queue="fail"))
    core.session_down()
    core.unsubscribe(number, forget=True)
    message, *rest = sent(core.session_up(False, version=2))
    assert isinstance(message, Subscribe) and (message.durable, message.queue) == ("d", "")
    assert rest == [messages.Unsubscribe(number, True)]


def test_acceptance_and_flow_arrive_in_order() -> None:
    core = new_core()
    subscribe(core)
    effects = receive(core, Subscribed(1, None, ("w",)), Flowing(1, (("n", 1, 10),)))
    assert items_for(effects) == [SubscriptionAccepted(("w",), None), FlowStarted(at(10))]
    assert consumed(effects) == 2


@pytest.mark.parametrize(
    ("start", "stored", "begins"),
    [
        (NEW, None, at(10)),
        (ALL, None, Position()),
        (since(at(3)), None, at(3)),
        (STORED, None, at(10)),
        (STORED, (("n", 1, 4),), at(4)),
        # Without processed events it begins at the beginning, not at the cut.
        (STORED, (), Position()),
        (NEW, (("n", 1, 4),), at(10)),
    ],
)
def test_a_position_begins_at_the_start(
    start: Start, stored: tuple[tuple[str, int, int], ...] | None, begins: Position
) -> None:
    core = new_core()
    subscribe(core, start, "d")
    receive(core, Subscribed(1, stored, ()), Flowing(1, (("n", 1, 10),)))
    assert core.position_of(1) == begins


def test_a_refused_subscription_ends_with_the_reason() -> None:
    core = new_core()
    subscribe(core)
    (over,) = items_for(receive(core, Ended(1, BadQuery("no", line=1, column=3).to_wire())))
    assert isinstance(over.error, BadQuery) and over.error.column == 3
    assert receive(core, Flowing(1, ())) == [MessagesConsumed(1)]


def test_events_count_as_processed_when_the_user_reports_them() -> None:
    core = flowing_core()
    effects = receive(core, delivery(11, 12))
    (batch,) = items_for(effects)
    assert [event.place.offset for event in batch.events] == [11, 12]
    assert core.position_of(1) == at(10)
    core.mark_processed(1, batch, 0.0)
    assert core.position_of(1) == at(12)


def test_a_discarded_batch_moves_no_position() -> None:
    core = flowing_core()
    (batch,) = items_for(receive(core, delivery(11)))
    core.discard(batch)
    assert core.position_of(1) == at(10)


def test_a_break_in_the_chain_of_places_is_a_protocol_error() -> None:
    core = flowing_core()
    receive(core, delivery(11, 12))
    receive(core, delivery(15, previous=12))
    for wrong in (None, 12, 14):
        with pytest.raises(ProtocolError):
            receive(core, delivery(17, previous=wrong))
    receive(core, delivery(17, previous=15))


def test_a_new_session_begins_a_new_chain() -> None:
    core = flowing_core()
    receive(core, delivery(11))
    core.session_down()
    core.session_up(True)
    with pytest.raises(ProtocolError):
        receive(core, delivery(12))
    core.session_down()
    core.session_up(False)
    receive(core, delivery(12))


def test_progress_moves_the_position_when_the_user_reaches_it() -> None:
    core = flowing_core()
    effects = receive(core, delivery(11), Progress(((1, (("n", 1, 20),)), (9, (("n", 1, 20),)))))
    batch, moved = items_for(effects)
    assert moved == PositionMoved(at(20)) and core.position_of(1) == at(10)
    core.mark_processed(1, batch, 0.0)
    assert core.position_of(1) == at(11)
    core.mark_processed(1, moved, 0.0)
    assert core.position_of(1) == at(20)


def test_a_gap_arrives_in_order_and_moves_the_position_past_it() -> None:
    core = flowing_core()
    effects = receive(core, messages.Gap(1, "n", (1, 11), (1, 15), 3, "slow"))
    gap, moved = items_for(effects)
    assert gap == Gap(Place("n", 1, 11), Place("n", 1, 15), 3, "slow")
    assert moved == PositionMoved(at(15))


def test_a_changed_type_arrives_and_moves_no_position() -> None:
    core = flowing_core()
    fields = ("flight", "1.0", "2.0", "reads-what-changed", "", ("/a",), (), ("/a",), (), 0)
    (change,) = items_for(receive(core, messages.TypeChanged(1, *fields)))
    assert change == TypeChanged(*fields)
    assert core.position_of(1) == at(10)
    assert items_for(receive(core, messages.TypeChanged(7, *fields)), 7) == []


# ----------------------------------------------------------------------------- acknowledging


def test_a_durable_position_is_acknowledged_after_a_while() -> None:
    core = flowing_core(durable="d")
    process_items(core, receive(core, delivery(11)), now=3.0)
    assert core.next_timeout() == 3.0 + ACKNOWLEDGE_AFTER
    assert core.handle_timeout(3.0 + ACKNOWLEDGE_AFTER - 0.01) == []
    assert sent(core.handle_timeout(3.0 + ACKNOWLEDGE_AFTER)) == [
        Acknowledge(((1, (("n", 1, 11),)),))
    ]
    assert core.next_timeout() is None


def test_a_durable_position_is_acknowledged_after_so_many_events() -> None:
    core = flowing_core(durable="d")
    effects = process_items(core, receive(core, delivery(*range(11, 11 + ACKNOWLEDGE_EVENTS))))
    assert sent(effects) == [Acknowledge(((1, (("n", 1, 10 + ACKNOWLEDGE_EVENTS),)),))]


def test_a_transient_position_is_not_acknowledged() -> None:
    core = flowing_core()
    process_items(core, receive(core, delivery(*range(11, 11 + ACKNOWLEDGE_EVENTS))))
    assert core.next_timeout() is None


def test_a_position_reached_without_a_connection_is_acknowledged_with_the_next() -> None:
    for resumed in (True, False):
        core = flowing_core(durable="d")
        effects = receive(core, delivery(11))
        core.session_down()
        process_items(core, effects)
        assert sent(core.handle_timeout(99.0)) == []
        assert sent(core.session_up(resumed))[-1] == Acknowledge(((1, (("n", 1, 11),)),))


def test_a_batch_holds_only_its_subscriptions_events() -> None:
    core = flowing_core()
    subscribe(core)
    receive(core, Subscribed(2, None, ()), Flowing(2, ()))
    numbers = [(1, (1,)), (1, (2,)), (1, (1, 2))]
    data = encode_delivery(logged(11, 12, 13), numbers, Liveness.LIVE, None)
    effects = receive(core, data)
    for number, offsets in ((1, [11, 13]), (2, [12, 13])):
        (batch,) = items_for(effects, number)
        assert isinstance(batch, EventBatch)
        assert [event.place.offset for event in batch.events] == offsets
