"""The check of deliveries at one site, one by one."""

from __future__ import annotations

import pytest

from broker.transport.order import MessageId, Stamp
from broker.transport.order.delivery_check import DeliveryCheck

A1, A2, A3 = (MessageId("a", 1, number) for number in (1, 2, 3))
B1 = MessageId("b", 1, 1)


def check(*deliveries: tuple[MessageId, int | None, bool]) -> list[str | None]:
    checked = DeliveryCheck()
    return [
        checked.check(id, None if time is None else Stamp(time, id.site), is_late=is_late)
        for id, time, is_late in deliveries
    ]


def test_right_deliveries_pass() -> None:
    found = check(
        (A1, 10, False),
        (B1, 10, False),
        (A2, 30, False),
        (MessageId("b", 1, 2), 20, True),
        (A3, None, False),
        (MessageId("a", 2, 1), 40, False),
    )
    assert found == [None] * 6


@pytest.mark.parametrize(
    ("deliveries", "text"),
    [
        (((A1, 10, False), (A1, 11, False)), "a/1/1 came behind 1/1 of its site"),
        (((A2, 10, False), (A1, 11, False)), "a/1/1 came behind 1/2 of its site"),
        (((MessageId("a", 2, 1), 10, False), (A1, 11, False)), "a/1/1 came behind 2/1"),
        (((A1, 10, False), (B1, 9, False)), "b/1/1 is late behind 10"),
        (((A1, 10, False), (B1, 11, True)), "b/1/1 is not late"),
    ],
)
def test_wrong_deliveries_are_named(
    deliveries: tuple[tuple[MessageId, int, bool], ...], text: str
) -> None:
    *_, wrong = check(*deliveries)
    assert wrong is not None and text in wrong


def test_a_message_that_was_taken_back_comes_again() -> None:
    checked = DeliveryCheck()
    for id, time in ((A1, 10), (A2, 20)):
        assert checked.check(id, Stamp(time, "a"), is_late=False) is None
    checked.take_back(A2)
    assert checked.check(B1, Stamp(15, "b"), is_late=False) is None
    assert checked.check(A2, Stamp(20, "a"), is_late=False) is None
    assert checked.check(A3, Stamp(30, "a"), is_late=False) is None
    wrong = checked.check(MessageId("b", 1, 2), Stamp(25, "b"), is_late=False)
    assert wrong is not None
