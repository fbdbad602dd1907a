"""The client's core through several sessions, with its questions, and to the end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.client.effects import (
    Answered,
    Consumed,
    Effect,
    Moved,
    Over,
    SessionOver,
)
from broker.client.received import ALL
from broker.client.wish import Wish
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
from tests.client.node_words import (
    arrived,
    at,
    consumed,
    delivery,
    flowing,
    new_core,
    publish,
    sent,
    subscribe,
    take,
    tell,
)

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
    assert (first.processed, second.processed) == ((("n", 1, 10),), None)
    assert (second.start, second.position) == ("all", ())
    assert acknowledged == Acknowledge(((1, (("n", 1, 10),)),))
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
    assert arrived(tell(core, Flowing(1, ()), Ended(1, NO_ERROR))) == [Over(None, at(10))]


def test_an_unsubscribed_durable_one_acknowledges_first() -> None:
    core = flowing(durable="d")
    take(core, tell(core, delivery(11)))
    assert sent(core.unsubscribe(1)) == [
        Acknowledge(((1, (("n", 1, 11),)),)),
        Unsubscribe(1, False),
    ]


def test_goodbye_acknowledges_first_and_needs_a_connection() -> None:
    core = flowing(durable="d")
    take(core, tell(core, delivery(11)))
    assert [type(message) for message in sent(core.positions.goodbye())] == [Acknowledge, Goodbye]
    core.session_down()
    assert sent(core.positions.goodbye()) == []


# ----------------------------------------------------------------------------- questions, the end


def test_an_answer_goes_to_its_question() -> None:
    core = new_core()
    request, effects = core.ask("status", {"a": "b"})
    assert sent(effects) == [Ask(request, "status", {"a": "b"})]
    effects = tell(core, Answer(request, NO_ERROR, {"x": 1}))
    assert effects == [Answered(request, {"x": 1}, None), Consumed(1)]
    core.session_down()
    assert sent(core.session_up(False)) == []


def test_an_error_is_an_answer_too() -> None:
    core = new_core()
    request, _ = core.ask("status", {})
    answered = tell(core, Answer(request, BadQuery("no").to_wire(), None))[0]
    assert isinstance(answered, Answered) and isinstance(answered.error, BadQuery)


def test_a_refusal_ends_the_session() -> None:
    effects = tell(new_core(), Refuse(ShuttingDown("bye").to_wire()))
    (over,) = (effect for effect in effects if isinstance(effect, SessionOver))
    assert isinstance(over.error, ShuttingDown) and consumed(effects) == 1


@pytest.mark.parametrize("version", [1, 2])
def test_stream_times_are_asked_for_in_a_session_of_version_2(version: int) -> None:
    core = new_core(connected=False)
    number, _ = core.subscribe(Wish(times=True))
    # While it was down its wish waited, and the session was resumed.
    for resumed in (True, False):
        core.session_down()
        (said,) = sent(core.session_up(resumed, "c/n", version=version))
        assert isinstance(said, Subscribe) and said.times is (version == 2)
    position = (("n", 1, 3),)
    tell(core, Subscribed(number, None, ()), Flowing(number, position))
    told = tell(core, Progress((), ((number, (("n", 5),)), (99, (("n", 5),)))))
    assert arrived(told, number) == [Moved(Position(), (("n", 5),))]
    told = tell(core, Progress(((number, (("n", 1, 4),)),), ((number, (("n", 6),)),)))
    assert arrived(told, number) == [Moved(Position({"n": (1, 4)}), (("n", 6),))]


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
