"""Messages and runs that wait for their delivery."""

from __future__ import annotations

from broker.streams.contract import CarriedEvent
from broker.transport.order import MessageId
from plugins.rcm.held_events import HeldEvents, HeldMessage, HeldTable
from plugins.rcm.payload import Channel


def run_of(first: int, count: int) -> HeldEvents:
    events = [CarriedEvent((1, offset), b"", b"<e/>") for offset in range(first, first + count)]
    return HeldEvents("0a/ops.>", "alps/a", (1, first - 1), (1, first + count - 1), events)


def id_of(number: int) -> MessageId:
    return MessageId("a", 1, number)


def table_of(*runs: tuple[int, int]) -> HeldTable:
    table = HeldTable()
    for first, count in runs:
        table.add(id_of(first), run_of(first, count))
    return table


def test_a_message_is_found_in_its_run() -> None:
    table = table_of((1, 3), (7, 2))
    found = [table.find_run(id_of(number)) for number in range(10)]
    first, second = id_of(1), id_of(7)
    assert found == [None, first, first, first, None, None, None, second, second, None]
    assert table.find_run(MessageId("b", 1, 2)) is None


def test_messages_are_taken_from_as_many_runs_as_they_are_in() -> None:
    table = table_of((1, 3), (4, 1), (7, 4))
    table.add(id_of(6), HeldMessage(Channel.CLIENTS, b"hi"))
    assert len(table) == 9
    taken = table.take(id_of(1), 8)
    assert [(id.number, len(held)) for id, held in taken] == [(1, 3), (4, 1), (6, 1), (7, 2)]
    (rest,) = table.take(id_of(9), 5)
    assert rest[0] == id_of(9) and len(rest[1]) == 2
    assert len(table) == 0 and table.find_run(id_of(9)) is None


def test_the_parts_of_a_run_share_its_range() -> None:
    first, rest = run_of(1, 5).cut(2)
    assert (first.after, first.upto, rest.after, rest.upto) == ((1, 0), (1, 2), (1, 2), (1, 5))
    assert [len(first), len(rest)] == [2, 3]
