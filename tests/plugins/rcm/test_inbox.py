"""Packets of one site wait for the events before them."""

from __future__ import annotations

import pytest

from broker.errors import ProtocolError
from broker.transport.order import Message, MessageId
from broker.transport.order.packet import Clock
from plugins.rcm.inbox import MOST_WAITING, NUMBER_PATIENCE, POLL, Inbox


def message(number: int, incarnation: int = 1) -> Message:
    return Message(MessageId("b", incarnation, number), b"x", frozenset())


def inbox_with(*packets: object, complete: set[int] | None = None) -> Inbox:
    """The node has all events before the messages with the numbers in `complete`."""
    numbers = complete or set()
    inbox = Inbox(lambda id: id.number in numbers)
    for packet in packets:
        inbox.add_packet(packet)
    return inbox


def take(inbox: Inbox, now: float = 0.0) -> list[object]:
    """Take what is ready, as the order gets it."""
    packets, _ = inbox.take_ready(now)
    for packet in packets:
        if isinstance(packet, Message):
            inbox.pass_message(packet.id)
    return list(packets)


def test_packets_wait_behind_an_event_that_the_node_does_not_have() -> None:
    first, clock, second = message(1), Clock(5), message(2)
    inbox = inbox_with(first, clock, second)
    inbox.add_ready(second.id, 0.0)
    assert take(inbox) == []
    inbox.add_ready(first.id, 0.0)
    assert take(inbox) == [first, clock, second]


def test_a_message_waits_for_lower_numbers_of_other_flows() -> None:
    inbox = inbox_with(message(1))
    inbox.add_ready(message(1).id, 0.0)
    assert len(take(inbox)) == 1
    third = message(3)
    inbox.add_packet(third)
    inbox.add_ready(third.id, 10.0)
    assert take(inbox, 10.0) == []
    assert inbox.next_timeout() == 10.0 + POLL
    # The event of another flow comes from a log.
    second = message(2)
    inbox.add_recovered(second, 10.1)
    assert inbox.has_event(second.id) and not inbox.is_passed(second.id)
    assert take(inbox, 10.1) == [second, third] and inbox.next_timeout() is None


def test_an_event_from_a_log_waits_for_lower_numbers_of_other_flows() -> None:
    first, second, third, fourth = map(message, (1, 2, 3, 4))
    inbox = inbox_with(first, second)
    inbox.add_ready(first.id, 0.0)
    assert take(inbox) == [first]
    # The node has the event of the packet later.
    inbox.add_recovered(fourth, 1.0)
    inbox.add_recovered(third, 1.0)
    assert take(inbox, 1.0) == []
    inbox.add_ready(second.id, 2.0)
    assert take(inbox, 2.0) == [second, third, fourth]


@pytest.mark.parametrize("is_complete", [True, False])
def test_missing_numbers_are_reported_when_all_flows_are_complete(is_complete: bool) -> None:
    inbox = inbox_with(message(1), message(4), message(6), complete={4, 6} if is_complete else None)
    for each in (1, 4, 6):
        inbox.add_ready(message(each).id, 1.0)
    if not is_complete:
        assert len(take(inbox, 1.0)) == 1
    packets, _ = inbox.take_ready(1.0 + (0.0 if is_complete else NUMBER_PATIENCE))
    missing = [inbox.pass_message(each.id) for each in packets if isinstance(each, Message)]
    assert missing[-2:] == [(2, 3), (5, 5)]


def test_messages_behind_later_ones_are_dropped() -> None:
    inbox = inbox_with(message(1), message(2), message(3))
    inbox.pass_message(message(2).id)
    for each in (1, 2, 3):
        inbox.add_ready(message(each).id, 0.0)
    packets, passed = inbox.take_ready(0.0)
    assert [each.id.number for each in packets if isinstance(each, Message)] == [3]
    assert [each.id.number for each in passed] == [1, 2]


def test_a_new_incarnation_begins_with_any_number() -> None:
    inbox = inbox_with(message(5), message(1, 2))
    inbox.add_ready(message(5).id, 0.0)
    inbox.add_ready(message(1, 2).id, 0.0)
    assert len(take(inbox)) == 2
    assert inbox.is_passed(message(9).id) and not inbox.is_passed(message(2, 2).id)


def test_an_inbox_is_bounded_by_packets() -> None:
    inbox = inbox_with(*[Clock(each) for each in range(MOST_WAITING - 1)])
    assert not inbox.is_full
    inbox.add_packet(Clock(0))
    assert inbox.is_full
    with pytest.raises(ProtocolError, match="packets"):
        for each in range(2 * MOST_WAITING):
            inbox.add_packet(Clock(each))
