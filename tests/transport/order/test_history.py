"""Neighbours of late messages (RCM R35; T16)."""

from __future__ import annotations

from broker.transport.order import MessageId, Place, Stamp
from broker.transport.order.history import History


def id_of(number: int) -> MessageId:
    return MessageId("a", 1, number)


def add(history: History, number: int) -> Place | None:
    return history.add(Stamp(number, "a"), id_of(number))


def test_a_late_message_has_the_neighbours_of_its_place() -> None:
    history = History(10)
    assert [add(history, number) for number in (10, 20, 30)] == [None] * 3
    assert add(history, 25) == Place(id_of(20), id_of(30))
    # An earlier late message is a neighbour too.
    assert add(history, 26) == Place(id_of(25), id_of(30))
    assert add(history, 5) == Place(None, id_of(10))
    assert add(history, 31) is None


def test_the_site_breaks_ties() -> None:
    history = History(10)
    history.add(Stamp(1, "b"), MessageId("b", 1, 1))
    assert history.is_late(Stamp(1, "a"), 1)
    assert not history.is_late(Stamp(1, "c"), 1)


def test_messages_below_the_kept_ones_have_no_neighbour_before_them() -> None:
    history = History(4)
    for number in range(1, 20):
        add(history, 10 * number)
    assert add(history, 1) is not None
    place = add(history, 2)
    assert place is not None and place.after is not None
    assert place.after.number > 10
