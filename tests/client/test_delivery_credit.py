"""Credit for deliveries: it never keeps receipts and answers from coming."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.client.delivery_credit import DeliveryCredit
from broker.client.effects import MessagesConsumed
from tests.client.node_messages import (
    consumed,
    credit_limits,
    delivery,
    items_for,
    new_core,
    receive,
    subscribe,
)


@given(st.integers(1, 100), st.lists(st.tuples(st.integers(1, 50), st.booleans()), max_size=60))
def test_a_node_that_keeps_to_the_limit_overfills_the_room_by_one_delivery_at_most(
    window: int, deliveries: list[tuple[int, bool]]
) -> None:
    room = DeliveryCredit(window)
    limit, sent = room.begin_session(), 0
    waiting: list[int] = []
    for size, taken in deliveries:
        if sent < limit:
            sent += size
            room.add_delivery(size)
            waiting.append(size)
        assert sum(waiting[:-1]) < window
        if taken and waiting:
            room.release_delivery(waiting.pop(0))
        limit = room.next_limit() or limit
    while waiting:
        room.release_delivery(waiting.pop())
        limit = room.next_limit() or limit
    # Nothing waits: the node may go on.
    assert sent < limit


def test_what_waits_from_a_former_session_counts_in_the_next() -> None:
    room = DeliveryCredit(100)
    room.begin_session()
    room.add_delivery(60)
    assert room.begin_session() == 40


def test_a_message_of_the_stack_is_consumed_when_it_arrives_not_when_it_is_taken() -> None:
    core = new_core(window=100)
    subscribe(core)
    effects = receive(core, delivery(11))
    (portion,) = items_for(effects)
    assert consumed(effects) == 1
    assert not any(isinstance(e, MessagesConsumed) for e in core.mark_processed(1, portion, 0.0))


def test_credit_for_a_shared_delivery_returns_with_its_last_taker() -> None:
    core = new_core(window=100)
    subscribe(core)
    subscribe(core)
    data = delivery(11, numbers=(1, 2))
    effects = receive(core, data)
    (first,), (second,) = items_for(effects, 1), items_for(effects, 2)
    assert credit_limits(core.mark_processed(1, first, 0.0)) == []
    assert credit_limits(core.mark_processed(2, second, 0.0)) == [100 + len(data)]


def test_a_delivery_that_nobody_wants_any_more_returns_its_credit_at_once() -> None:
    core = new_core(window=100)
    data = delivery(11, numbers=(5,))
    assert credit_limits(receive(core, data)) == [100 + len(data)]


def test_what_is_discarded_returns_its_credit() -> None:
    core = new_core(window=100)
    subscribe(core)
    data = delivery(11)
    (portion,) = items_for(receive(core, data))
    assert credit_limits(core.discard(portion)) == [100 + len(data)]


def test_credit_that_came_free_without_a_connection_is_told_with_the_next() -> None:
    core = new_core(window=100)
    subscribe(core)
    data = delivery(11)
    (portion,) = items_for(receive(core, data))
    core.session_down()
    assert credit_limits(core.mark_processed(1, portion, 0.0)) == []
    assert credit_limits(core.session_up(True)) == [100 + len(data)]
