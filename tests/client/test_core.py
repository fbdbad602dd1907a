"""The client's session core: for each message and wish, the effects."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.client.core import ACKNOWLEDGE_AFTER, ACKNOWLEDGE_EVENTS, ClientCore
from broker.client.effects import (
    Accepted,
    Answered,
    Arrived,
    Consumed,
    Effect,
    HeldUp,
    Moved,
    Over,
    Portion,
    Send,
    SessionOver,
    Settled,
)
from broker.client.outbox import Outbox
from broker.client.received import ALL, NEW, STORED, Flow, Gap, Receipt, Start, since
from broker.errors import BadQuery, LogUnavailable, ProtocolError, ShuttingDown
from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.identity import EventId
from broker.event.place import Place, Position
from broker.session import messages
from broker.session.batches import (
    EncodedEvents,
    decode_batch,
    encode_delivery,
    encode_events,
)
from broker.session.messages import (
    NO_ERROR,
    Acknowledge,
    Answer,
    Ask,
    Ended,
    Flowing,
    Goodbye,
    Message,
    NotPublished,
    Progress,
    Published,
    Refuse,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from broker.store.records import LoggedEvent, encode_header


def at(offset: int, epoch: int = 1) -> Position:
    return Position({"n": (epoch, offset)})


def logged(*offsets: int, epoch: int = 1) -> EncodedEvents:
    header = Header(EventId("p", 1, 1, 1), "s", "t", "1.0", SecurityLevel.MED, Liveness.LIVE)
    record = encode_header(header)
    return encode_events("n", [LoggedEvent(epoch, o, 0, 1, record, b"<e/>") for o in offsets])


def delivery(
    *offsets: int, numbers: tuple[int, ...] = (1,), previous: int | None = None, epoch: int = 1
) -> bytes:
    before = None if previous is None else ("n", epoch, previous)
    return encode_delivery(
        logged(*offsets, epoch=epoch), [numbers] * len(offsets), Liveness.LIVE, before
    )


def tell(core: ClientCore, *said: Message | bytes, now: float = 0.0) -> list[Effect]:
    effects: list[Effect] = []
    for message in said:
        data = message if isinstance(message, bytes) else messages.encode(message)
        effects += core.message_received(data, now)
    return effects


def sent(effects: list[Effect]) -> list[Message]:
    return [messages.decode(effect.data) for effect in effects if isinstance(effect, Send)]


def arrived(effects: list[Effect], number: int = 1) -> list[Any]:
    return [e.item for e in effects if isinstance(e, Arrived) and e.number == number]


def consumed(effects: list[Effect]) -> int:
    return sum(effect.count for effect in effects if isinstance(effect, Consumed))


def new_core(connected: bool = True) -> ClientCore:
    core = ClientCore(Outbox(100, 100_000))
    if connected:
        assert core.session_up(False) == []
    return core


def subscribe(core: ClientCore, start: Start = NEW, durable: str = "") -> list[Effect]:
    _, effects = core.subscribe("q", "p.>", namespaces={"a": "b"}, durable=durable, start=start)
    return effects


def flowing(start: Start = NEW, durable: str = "", cut: int = 10) -> ClientCore:
    core = new_core()
    subscribe(core, start, durable)
    tell(core, Subscribed(1, None, ()), Flowing(1, [("n", 1, cut)]))
    return core


def take(core: ClientCore, effects: list[Effect], now: float = 0.0) -> list[Effect]:
    """The user processes all that arrived."""
    return [e for item in arrived(effects) for e in core.taken(1, item, now)]


# ----------------------------------------------------------------------------- publishing


def publish(core: ClientCore, count: int = 1) -> None:
    for number in range(1, count + 1):
        core.publish(b"<e/>", EventId("p", 1, number, 1), f"waiter {number}")


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
    effects = tell(core, Published(1, (("n", 1, 7),), 1, (), ((1, error),)))
    settled = {e.waiter: e.result for e in effects if isinstance(e, Settled)}
    assert settled["waiter 1"] == Receipt(EventId("p", 1, 1, 1), Place("n", 1, 7))
    assert isinstance(settled["waiter 2"], BadQuery)
    assert consumed(effects) == 1


def test_a_batch_that_was_sent_back_goes_out_again_after_the_time_that_was_said() -> None:
    core = new_core()
    publish(core)
    core.flush()
    error = LogUnavailable("full").to_wire()
    effects = tell(core, NotPublished(1, 1500, error), now=10.0)
    (held,) = (effect for effect in effects if isinstance(effect, HeldUp))
    assert isinstance(held.error, LogUnavailable)
    assert core.flush() == [] and core.next_timeout() == 11.5
    core.handle_timeout(11.4)
    assert core.flush() == []
    core.handle_timeout(11.5)
    assert len(core.flush()) == 1
    # Told once when it begins and once when it is over.
    assert not any(
        isinstance(e, HeldUp) for e in tell(core, NotPublished(1, 1500, error), now=12.0)
    )
    core.handle_timeout(14.0)
    core.flush()
    assert HeldUp(None) in tell(core, Published(1, (("n", 1, 1),), 1, (), ()))


def test_a_batch_behind_one_that_was_sent_back_waits_until_all_are_answered() -> None:
    core = new_core()
    publish(core)
    core.flush()
    publish(core)
    core.flush()
    error = LogUnavailable("full").to_wire()
    # The second is sent back first: the first was already on its way to the disk.
    tell(core, NotPublished(2, 1000, error), now=0.0)
    core.handle_timeout(5.0)
    assert core.flush() == [] and core.next_timeout() is None
    tell(core, Published(1, (("n", 1, 1),), 1, (), ()), now=6.0)
    assert core.next_timeout() == 6.0
    core.handle_timeout(6.0)
    (send,) = core.flush()
    assert isinstance(send, Send) and decode_batch(send.data).number == 2


# ----------------------------------------------------------------------------- subscribing


def test_a_wish_is_sent_as_it_was_made() -> None:
    core = new_core()
    (message,) = sent(subscribe(core, since(at(7)), "d"))
    wire = (("n", 1, 7),)
    assert message == Subscribe(1, "p.>", "q", {"a": "b"}, "d", "position", wire, 0)


def test_acceptance_and_flow_arrive_in_order() -> None:
    core = new_core()
    subscribe(core)
    effects = tell(core, Subscribed(1, None, ("w",)), Flowing(1, [("n", 1, 10)]))
    assert arrived(effects) == [Accepted(("w",), None), Flow(at(10))]
    assert consumed(effects) == 2


@pytest.mark.parametrize(
    ("start", "stored", "begins"),
    [
        (NEW, None, at(10)),
        (ALL, None, Position()),
        (since(at(3)), None, at(3)),
        (STORED, None, at(10)),
        (STORED, [("n", 1, 4)], at(4)),
        # Stored, and nothing was processed: it begins at the beginning, not at the cut.
        (STORED, [], Position()),
        (NEW, [("n", 1, 4)], at(10)),
    ],
)
def test_a_position_begins_where_the_start_says(
    start: Start, stored: list[tuple[str, int, int]] | None, begins: Position
) -> None:
    core = new_core()
    subscribe(core, start, "d")
    tell(core, Subscribed(1, stored, ()), Flowing(1, [("n", 1, 10)]))
    assert core.position(1) == begins


def test_a_refused_subscription_ends_with_the_reason() -> None:
    core = new_core()
    subscribe(core)
    (over,) = arrived(tell(core, Ended(1, BadQuery("no", line=1, column=3).to_wire())))
    assert isinstance(over.error, BadQuery) and over.error.column == 3
    assert tell(core, Flowing(1, [])) == [Consumed(1)]


def test_events_count_as_processed_when_the_user_has_taken_them() -> None:
    core = flowing()
    effects = tell(core, delivery(11, 12))
    (portion,) = arrived(effects)
    assert [event.place.offset for event in portion.events] == [11, 12]
    assert consumed(effects) == 0 and core.position(1) == at(10)
    assert core.taken(1, portion, 0.0) == [Consumed(1)]
    assert core.position(1) == at(12)


def test_credit_for_a_shared_delivery_returns_with_its_last_taker() -> None:
    core = flowing()
    subscribe(core)
    effects = tell(core, delivery(11, numbers=(1, 2)))
    (first,), (second,) = arrived(effects, 1), arrived(effects, 2)
    assert core.taken(1, first, 0.0) == []
    assert core.taken(2, second, 0.0) == [Consumed(1)]


def test_a_delivery_that_nobody_wants_any_more_returns_its_credit_at_once() -> None:
    core = flowing()
    assert tell(core, delivery(11, numbers=(5,))) == [Consumed(1)]


def test_what_is_discarded_returns_its_credit_and_moves_no_position() -> None:
    core = flowing()
    (portion,) = arrived(tell(core, delivery(11)))
    assert core.discarded(portion) == [Consumed(1)]
    assert core.position(1) == at(10)


def test_a_hole_in_the_chain_of_places_is_a_protocol_error() -> None:
    core = flowing()
    tell(core, delivery(11, 12))
    tell(core, delivery(15, previous=12))
    for wrong in (None, 12, 14):
        with pytest.raises(ProtocolError):
            tell(core, delivery(17, previous=wrong))
    tell(core, delivery(17, previous=15))


def test_a_new_session_begins_a_new_chain() -> None:
    core = flowing()
    tell(core, delivery(11))
    core.session_down()
    core.session_up(True)
    with pytest.raises(ProtocolError):
        tell(core, delivery(12))
    core.session_down()
    core.session_up(False)
    tell(core, delivery(12))


def test_progress_moves_the_position_when_the_user_has_come_to_it() -> None:
    core = flowing()
    effects = tell(core, delivery(11), Progress([(1, [("n", 1, 20)]), (9, [("n", 1, 20)])]))
    portion, moved = arrived(effects)
    assert moved == Moved(at(20)) and core.position(1) == at(10)
    core.taken(1, portion, 0.0)
    assert core.position(1) == at(11)
    core.taken(1, moved, 0.0)
    assert core.position(1) == at(20)


def test_a_gap_arrives_in_order_and_moves_the_position_past_it() -> None:
    core = flowing()
    effects = tell(core, messages.Gap(1, "n", (1, 11), (1, 15), 3, "slow"))
    gap, moved = arrived(effects)
    assert gap == Gap(Place("n", 1, 11), Place("n", 1, 15), 3, "slow")
    assert moved == Moved(at(15))


# ----------------------------------------------------------------------------- acknowledging


def test_a_durable_position_is_acknowledged_after_a_while() -> None:
    core = flowing(durable="d")
    take(core, tell(core, delivery(11)), now=3.0)
    assert core.next_timeout() == 3.0 + ACKNOWLEDGE_AFTER
    assert core.handle_timeout(3.0 + ACKNOWLEDGE_AFTER - 0.01) == []
    assert sent(core.handle_timeout(3.0 + ACKNOWLEDGE_AFTER)) == [
        Acknowledge([(1, (("n", 1, 11),))])
    ]
    assert core.next_timeout() is None


def test_a_durable_position_is_acknowledged_after_so_many_events() -> None:
    core = flowing(durable="d")
    effects = take(core, tell(core, delivery(*range(11, 11 + ACKNOWLEDGE_EVENTS))))
    assert sent(effects) == [Acknowledge([(1, (("n", 1, 10 + ACKNOWLEDGE_EVENTS),))])]


def test_a_transient_position_is_acknowledged_to_nobody() -> None:
    core = flowing()
    take(core, tell(core, delivery(*range(11, 11 + ACKNOWLEDGE_EVENTS))))
    assert core.next_timeout() is None


def test_a_position_reached_without_a_connection_is_acknowledged_with_the_next() -> None:
    for resumed in (True, False):
        core = flowing(durable="d")
        effects = tell(core, delivery(11))
        core.session_down()
        take(core, effects)
        assert core.handle_timeout(99.0) == []
        assert sent(core.session_up(resumed))[-1] == Acknowledge([(1, (("n", 1, 11),))])


# ----------------------------------------------------------------------------- sessions


def test_a_resumed_session_hears_only_what_was_wished_meanwhile() -> None:
    core = flowing()
    core.session_down()
    assert subscribe(core) == []
    assert core.ask("status", {})[1] == []
    assert arrived(core.unsubscribe(1)) == [Over(None, at(10))]
    assert [type(message) for message in sent(core.session_up(True))] == [
        Subscribe,
        Ask,
        Unsubscribe,
    ]
    core.session_down()
    assert core.session_up(True) == []


def test_a_new_session_hears_everything_from_where_it_has_arrived_not_been_processed() -> None:
    core = flowing(durable="d")
    subscribe(core, ALL)
    core.ask("status", {})
    publish(core)
    core.flush()
    tell(core, delivery(11, 12))
    core.session_down()
    again = sent(core.session_up(False))
    assert [type(message) for message in again] == [Subscribe, Subscribe, Ask, Acknowledge]
    first, second, _, acknowledged = again
    assert isinstance(first, Subscribe) and isinstance(second, Subscribe)
    assert (first.start, first.position) == ("position", (("n", 1, 12),))
    assert (second.start, second.position) == ("all", ())
    assert acknowledged == Acknowledge([(1, (("n", 1, 10),))])
    assert len(core.flush()) == 1


def test_an_unsubscription_is_over_when_the_node_says_so() -> None:
    core = flowing()
    assert sent(core.unsubscribe(1)) == [Unsubscribe(1, False)]
    assert tell(core, delivery(11)) == [Consumed(1)]
    assert arrived(tell(core, Ended(1, NO_ERROR))) == [Over(None, at(10))]
    assert core.unsubscribe(1) == []


def test_an_unsubscription_lost_with_its_session_is_over() -> None:
    core = flowing()
    core.unsubscribe(1)
    core.session_down()
    effects = core.session_up(False)
    assert sent(effects) == [] and arrived(effects) == [Over(None, at(10))]


def test_forgetting_lost_with_its_session_is_said_again() -> None:
    core = flowing(durable="d")
    core.unsubscribe(1, forget=True)
    core.session_down()
    again = sent(core.session_up(False))
    assert [type(message) for message in again] == [Subscribe, Unsubscribe]
    assert again[1] == Unsubscribe(1, True)
    assert arrived(tell(core, Flowing(1, []), Ended(1, NO_ERROR))) == [Over(None, at(10))]


def test_an_unsubscribed_durable_one_acknowledges_first() -> None:
    core = flowing(durable="d")
    take(core, tell(core, delivery(11)))
    assert sent(core.unsubscribe(1)) == [
        Acknowledge([(1, (("n", 1, 11),))]),
        Unsubscribe(1, False),
    ]


def test_goodbye_acknowledges_first_and_needs_a_connection() -> None:
    core = flowing(durable="d")
    take(core, tell(core, delivery(11)))
    assert [type(message) for message in sent(core.goodbye())] == [Acknowledge, Goodbye]
    core.session_down()
    assert core.goodbye() == []


# ----------------------------------------------------------------------------- questions, the end


def test_an_answer_goes_to_its_question() -> None:
    core = new_core()
    request, effects = core.ask("status", {"a": "b"})
    assert sent(effects) == [Ask(request, "status", {"a": "b"})]
    effects = tell(core, Answer(request, NO_ERROR, {"x": 1}))
    assert effects == [Answered(request, {"x": 1}, None), Consumed(1)]
    core.session_down()
    assert core.session_up(False) == []


def test_an_error_is_an_answer_too() -> None:
    core = new_core()
    request, _ = core.ask("status", {})
    answered = tell(core, Answer(request, BadQuery("no").to_wire(), None))[0]
    assert isinstance(answered, Answered) and isinstance(answered.error, BadQuery)


def test_a_refusal_ends_the_session() -> None:
    effects = tell(new_core(), Refuse(ShuttingDown("bye").to_wire()))
    (over,) = (effect for effect in effects if isinstance(effect, SessionOver))
    assert isinstance(over.error, ShuttingDown) and consumed(effects) == 1


NOT_FOR_A_CLIENT = [
    Goodbye(),
    Acknowledge([]),
    Ask(1, "status", {}),
    Unsubscribe(1, False),
    Subscribe(1, "a", "b", {}, "", "new", (), 0),
    Published(1, (), 0, (), ()),
    NotPublished(1, 1, NO_ERROR),
]


@pytest.mark.parametrize("message", NOT_FOR_A_CLIENT, ids=lambda message: type(message).__name__)
def test_what_a_node_may_not_say_is_a_protocol_error(message: Message) -> None:
    with pytest.raises(ProtocolError):
        tell(new_core(), message)


@given(st.lists(st.binary(max_size=60), max_size=5))
def test_random_bytes_are_a_protocol_error_or_effects(said: list[bytes]) -> None:
    core = flowing()
    for data in said:
        try:
            effects = core.message_received(data, 0.0)
        except ProtocolError as error:
            assert error.text
        else:
            assert all(isinstance(effect, Effect) for effect in effects)


def test_a_portion_knows_nothing_of_other_subscriptions_events() -> None:
    core = flowing()
    subscribe(core)
    numbers = [(1,), (2,), (1, 2)]
    data = encode_delivery(logged(11, 12, 13), numbers, Liveness.LIVE, None)
    effects = tell(core, data)
    for number, offsets in ((1, [11, 13]), (2, [12, 13])):
        (portion,) = arrived(effects, number)
        assert isinstance(portion, Portion)
        assert [event.place.offset for event in portion.events] == offsets
