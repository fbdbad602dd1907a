"""The client's core through several sessions, with requests, to the end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.client.effects import (
    Effect,
    MessagesConsumed,
    PositionMoved,
    RequestAnswered,
    SessionEnded,
    SubscriptionEnded,
)
from broker.client.received import ALL
from broker.client.subscription_request import SubscriptionRequest
from broker.errors import BadQuery, ProtocolError, ShuttingDown
from broker.event.place import Position
from broker.wire.codec import Message
from broker.wire.messages import (
    NO_ERROR,
    Acknowledge,
    Answer,
    Ask,
    Ended,
    Flowing,
    Goodbye,
    NotPublished,
    Progress,
    Published,
    Refuse,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from tests.client.node_messages import (
    at,
    consumed,
    delivery,
    flowing_core,
    items_for,
    new_core,
    process_items,
    publish,
    receive,
    sent,
    subscribe,
)

# ----------------------------------------------------------------------------- sessions


def test_a_resumed_session_receives_only_the_queued_messages() -> None:
    core = flowing_core()
    core.session_down()
    assert subscribe(core) == []
    assert core.ask("status", {})[1] == []
    assert items_for(core.unsubscribe(1)) == [SubscriptionEnded(None, at(10))]
    assert [type(message) for message in sent(core.session_up(True))] == [
        Subscribe,
        Ask,
        Unsubscribe,
    ]
    core.session_down()
    assert core.session_up(True) == []


def test_a_new_session_resumes_at_the_arrived_position() -> None:
    core = flowing_core(durable="d")
    subscribe(core, ALL)
    core.ask("status", {})
    publish(core)
    core.flush()
    receive(core, delivery(11, 12))
    core.session_down()
    again = sent(core.session_up(False))
    assert [type(message) for message in again] == [Subscribe, Subscribe, Ask, Acknowledge]
    first, second, _, acknowledged = again
    assert isinstance(first, Subscribe) and isinstance(second, Subscribe)
    assert (first.start, first.position) == ("position", (("n", 1, 12),))
    assert (first.processed, second.processed) == ((("n", 1, 10),), None)
    assert (second.start, second.position) == ("all", ())
    assert acknowledged == Acknowledge(((1, (("n", 1, 10),)),))
    assert len(core.flush()) == 1


def test_an_unsubscription_ends_with_the_nodes_message() -> None:
    core = flowing_core()
    assert sent(core.unsubscribe(1)) == [Unsubscribe(1, False)]
    assert receive(core, delivery(11)) == [MessagesConsumed(1)]
    assert items_for(receive(core, Ended(1, NO_ERROR))) == [SubscriptionEnded(None, at(10))]
    assert core.unsubscribe(1) == []


def test_an_unsubscription_ends_with_its_lost_session() -> None:
    core = flowing_core()
    core.unsubscribe(1)
    core.session_down()
    effects = core.session_up(False)
    assert sent(effects) == [] and items_for(effects) == [SubscriptionEnded(None, at(10))]


def test_a_lost_deletion_is_sent_again() -> None:
    core = flowing_core(durable="d")
    core.unsubscribe(1, forget=True)
    core.session_down()
    again = sent(core.session_up(False))
    assert [type(message) for message in again] == [Subscribe, Unsubscribe]
    assert again[1] == Unsubscribe(1, True)
    assert items_for(receive(core, Flowing(1, ()), Ended(1, NO_ERROR))) == [
        SubscriptionEnded(None, at(10))
    ]


def test_a_durable_subscription_acknowledges_before_it_ends() -> None:
    core = flowing_core(durable="d")
    process_items(core, receive(core, delivery(11)))
    assert sent(core.unsubscribe(1)) == [
        Acknowledge(((1, (("n", 1, 11),)),)),
        Unsubscribe(1, False),
    ]


def test_goodbye_acknowledges_first_and_needs_a_connection() -> None:
    core = flowing_core(durable="d")
    process_items(core, receive(core, delivery(11)))
    assert [type(message) for message in sent(core.positions.end_session())] == [
        Acknowledge,
        Goodbye,
    ]
    core.session_down()
    assert sent(core.positions.end_session()) == []


# ----------------------------------------------------------------------------- questions, the end


def test_an_answer_belongs_to_its_request() -> None:
    core = new_core()
    request, effects = core.ask("status", {"a": "b"})
    assert sent(effects) == [Ask(request, "status", {"a": "b"})]
    effects = receive(core, Answer(request, NO_ERROR, {"x": 1}))
    assert effects == [RequestAnswered(request, {"x": 1}, None), MessagesConsumed(1)]
    core.session_down()
    assert sent(core.session_up(False)) == []


def test_an_error_is_an_answer_too() -> None:
    core = new_core()
    request, _ = core.ask("status", {})
    answered = receive(core, Answer(request, BadQuery("no").to_wire(), None))[0]
    assert isinstance(answered, RequestAnswered) and isinstance(answered.error, BadQuery)


def test_a_refusal_ends_the_session() -> None:
    effects = receive(new_core(), Refuse(ShuttingDown("bye").to_wire()))
    (over,) = (effect for effect in effects if isinstance(effect, SessionEnded))
    assert isinstance(over.error, ShuttingDown) and consumed(effects) == 1


@pytest.mark.parametrize("version", [1, 2])
def test_stream_times_are_requested_in_a_session_of_version_2(version: int) -> None:
    core = new_core(connected=False)
    number, _ = core.subscribe(SubscriptionRequest(stream_times=True))
    # The request was queued without a connection.
    for resumed in (True, False):
        core.session_down()
        (message,) = sent(core.session_up(resumed, "c/n", version=version))
        assert isinstance(message, Subscribe) and message.times is (version == 2)
    position = (("n", 1, 3),)
    receive(core, Subscribed(number, None, ()), Flowing(number, position))
    effects = receive(core, Progress((), ((number, (("n", 5),)), (99, (("n", 5),)))))
    assert items_for(effects, number) == [PositionMoved(Position(), (("n", 5),))]
    effects = receive(core, Progress(((number, (("n", 1, 4),)),), ((number, (("n", 6),)),)))
    assert items_for(effects, number) == [PositionMoved(Position({"n": (1, 4)}), (("n", 6),))]


NOT_FOR_A_CLIENT = [
    Goodbye(),
    Acknowledge(()),
    Ask(1, "status", {}),
    Unsubscribe(1, False),
    Subscribe(1, "a", "b", {}, "", "new", (), 0),
    Published(1, (), 0, (), ()),
    NotPublished(1, 1, NO_ERROR),
]


@pytest.mark.parametrize("message", NOT_FOR_A_CLIENT, ids=lambda message: type(message).__name__)
def test_a_message_that_is_not_for_a_client_is_a_protocol_error(message: Message) -> None:
    with pytest.raises(ProtocolError):
        receive(new_core(), message)


@given(st.lists(st.binary(max_size=60), max_size=5))
def test_random_bytes_are_a_protocol_error_or_effects(message: list[bytes]) -> None:
    core = flowing_core()
    for data in message:
        try:
            effects = core.receive_message(data, 0.0)
        except ProtocolError as error:
            assert error.text
        else:
            assert all(isinstance(effect, Effect) for effect in effects)
