"""Credit for deliveries: it never blocks receipts and answers."""

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
def test_a_node_within_the_limit_exceeds_the_window_by_one_delivery_at_most(
    window: int, deliveries: list[tuple[int, bool]]
) -> None:
    credit = DeliveryCredit(window)
    limit, sent = credit.begin_session(), 0
    waiting: list[int] = []
    for size, taken in deliveries:
        if sent < limit:
            sent += size
            credit.add_delivery(size)
            waiting.append(size)
        assert sum(waiting[:-1]) < window
        if taken and waiting:
            credit.release_delivery(waiting.pop(0))
        limit = credit.next_limit() or limit
    while waiting:
        credit.release_delivery(waiting.pop())
        limit = credit.next_limit() or limit
    # Nothing is unprocessed.
    assert sent < limit


def test_unprocessed_bytes_of_a_previous_session_count() -> None:
    credit = DeliveryCredit(100)
    credit.begin_session()
    credit.add_delivery(60)
    assert credit.begin_session() == 40


def test_a_message_is_consumed_on_arrival_not_when_processed() -> None:
    core = new_core(window=100)
    subscribe(core)
    effects = receive(core, delivery(11))
    (batch,) = items_for(effects)
    assert consumed(effects) == 1
    assert not any(isinstance(e, MessagesConsumed) for e in core.mark_processed(1, batch, 0.0))


def test_credit_of_a_shared_delivery_returns_with_its_last_part() -> None:
    core = new_core(window=100)
    subscribe(core)
    subscribe(core)
    data = delivery(11, numbers=(1, 2))
    effects = receive(core, data)
    (first,), (second,) = items_for(effects, 1), items_for(effects, 2)
    assert credit_limits(core.mark_processed(1, first, 0.0)) == []
    assert credit_limits(core.mark_processed(2, second, 0.0)) == [100 + len(data)]


def test_a_delivery_without_a_subscription_returns_its_credit_at_once() -> None:
    core = new_core(window=100)
    data = delivery(11, numbers=(5,))
    assert credit_limits(receive(core, data)) == [100 + len(data)]


def test_a_discarded_batch_returns_its_credit() -> None:
    core = new_core(window=100)
    subscribe(core)
    data = delivery(11)
    (batch,) = items_for(receive(core, data))
    assert credit_limits(core.discard(batch)) == [100 + len(data)]


def test_credit_released_without_a_connection_is_sent_with_the_next() -> None:
    core = new_core(window=100)
    subscribe(core)
    data = delivery(11)
    (batch,) = items_for(receive(core, data))
    core.session_down()
    assert credit_limits(core.mark_processed(1, batch, 0.0)) == []
    assert credit_limits(core.session_up(True)) == [100 + len(data)]
