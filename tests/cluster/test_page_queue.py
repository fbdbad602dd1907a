"""Queues of pages for nodes that lag behind."""

from __future__ import annotations

import pytest

from broker.cluster.page_queue import MOST_QUEUES, QUEUE_TIMEOUT, Page, PageQueue, PageQueues
from broker.event.envelope import EventType
from broker.event.event_id import EventId
from broker.event.place import Mark
from broker.event.writer import write_event
from broker.log.logged_event import LoggedEvent
from broker.queue_memory import ENTRY_BYTES, QueueMemory
from broker.streams.bounded_queue import QueueBudget
from broker.streams.dropped_count import QUEUE_FULL, DroppedCount
from broker.streams.queue_policy import DROP_NEWEST, DROP_OLDEST, FAIL, parse_queue_policy
from tests.cluster.traffic.frames import node

READER = node("reader")
BY_KEY = parse_queue_policy("coalesce:/e/@key")


def event(offset: int, key: str = "", level: int = 0) -> LoggedEvent:
    payload = f'<e key="{key}"/>'.encode()
    document = write_event(EventId("c", 0, 1, offset), "s", EventType("E", "1.0"), payload)
    return LoggedEvent(1, offset, 0, level, b"", document, "home", offset)


def queue_of(policy: object, most: int = 5) -> PageQueue:
    return PageQueue(policy, QueueBudget(most, 1 << 20), (1, 0))  # type: ignore[arg-type]


def add(queue: PageQueue, *events: LoggedEvent, upto: int, query: int = 1) -> bool:
    return queue.add_events([(each, (query,)) for each in events], (1, upto))


def take(queue: PageQueue, most: int = 100) -> Page:
    return queue.take_page(READER, most, 1 << 20)


Row = tuple[int, int, int | None, bool, tuple[DroppedCount, ...], list[int]]


def rows(page: Page) -> list[Row]:
    """Return after, upto, the last unavailable place, `has_more`, dropped events and events."""

    def offset(mark: Mark | None) -> int | None:
        return None if mark is None else mark[1]

    assert all(span.destination == READER for span, _ in page)
    return [
        (
            *(span.after[1], span.upto[1], offset(span.unavailable_upto), span.has_more),
            *(span.dropped, [each.offset for each in events]),
        )
        for span, events in page
    ]


def slow(count: int, rank: int = 0) -> tuple[DroppedCount, ...]:
    return (DroppedCount(rank, count, False),)


def coalesced(count: int) -> tuple[DroppedCount, ...]:
    return (DroppedCount(0, count, True),)


def test_drop_oldest_keeps_the_newest_events() -> None:
    queue = queue_of(DROP_OLDEST)
    add(queue, *map(event, range(1, 9)), upto=10)
    assert rows(take(queue)) == [(0, 10, 3, False, slow(3), [4, 5, 6, 7, 8])]
    assert queue.is_empty and queue.after == (1, 10)


def test_drop_newest_keeps_the_oldest_events() -> None:
    queue = queue_of(DROP_NEWEST)
    add(queue, *map(event, range(1, 9)), upto=10)
    assert rows(take(queue)) == [
        (0, 5, None, True, (), [1, 2, 3, 4, 5]),
        (5, 10, 8, False, slow(3), []),
    ]


def test_a_key_has_its_newest_event_and_a_loss_in_the_place_of_others() -> None:
    queue = queue_of(BY_KEY)
    add(queue, *(event(i, key) for i, key in enumerate("aabcbb", 1)), upto=6)
    add(queue, event(7, "d"), upto=9)
    assert rows(take(queue)) == [
        (0, 2, 1, True, coalesced(1), [2]),
        (2, 4, 3, True, coalesced(1), [4]),
        (4, 9, 5, False, coalesced(1), [6, 7]),
    ]


def test_an_event_replaces_only_one_with_the_same_queries_and_level() -> None:
    queue = queue_of(BY_KEY)
    add(queue, event(1, "a"), upto=1, query=1)
    add(queue, event(2, "a"), upto=2, query=2)
    add(queue, event(3, "a", level=2), upto=3, query=2)
    queue.add_events([(event(4, "a"), None)], (1, 4))
    add(queue, event(5, "a"), upto=5, query=1)
    assert rows(take(queue)) == [(0, 5, 1, False, coalesced(1), [2, 3, 4, 5])]


def test_losses_are_counted_for_each_level() -> None:
    queue = queue_of(DROP_OLDEST, 2)
    add(queue, *(event(i, level=i % 3) for i in range(1, 8)), upto=7)
    ((span, events),) = take(queue)
    assert [each.offset for each in events] == [6, 7]
    assert sorted(span.dropped) == [*slow(1, 0), *slow(2, 1), *slow(2, 2)]


def test_pages_are_bounded_and_continue_where_the_last_one_ended() -> None:
    queue = queue_of(DROP_OLDEST, 10)
    add(queue, *map(event, range(1, 13)), upto=12)
    assert rows(take(queue, 4)) == [(0, 6, 2, True, slow(2), [3, 4, 5, 6])]
    add(queue, event(13), upto=13)
    size = event(1).size
    page = queue.take_page(READER, 100, 3 * size)
    assert rows(page) == [(6, 9, None, True, (), [7, 8, 9])]
    assert rows(take(queue)) == [(9, 13, None, False, (), [10, 11, 12, 13])]
    assert rows(take(queue)) == [(13, 13, None, False, (), [])]


def test_a_lost_page_is_sent_again_and_another_position_starts_anew() -> None:
    queue = queue_of(DROP_OLDEST)
    add(queue, *map(event, range(1, 9)), upto=8)
    page = take(queue, 2)
    assert queue.sent_page((1, 0)) == page and queue.sent_page((1, 5)) is None
    queue.restart((1, 4))
    assert queue.is_empty and queue.sent_page((1, 0)) is None
    assert (queue.after, queue.read_upto) == ((1, 4), (1, 4))
    add(queue, event(5), upto=5)
    assert rows(take(queue)) == [(4, 5, None, False, (), [5])]


def test_a_full_queue_with_fail_keeps_all_events_and_says_so_once() -> None:
    queue = queue_of(FAIL)
    assert add(queue, *map(event, range(1, 6)), upto=6)
    assert not add(queue, *map(event, range(7, 9)), upto=9)
    assert rows(take(queue, 3)) == [(0, 3, None, True, QUEUE_FULL, [1, 2, 3])]
    # The queue ends before the event that did not fit.
    assert rows(take(queue)) == [(3, 6, None, False, (), [4, 5])]


def test_queues_share_their_bounds_and_the_number_of_queues_is_bounded() -> None:
    queues = PageQueues(2 * MOST_QUEUES, 1 << 20, QueueMemory())
    for number in range(MOST_QUEUES):
        found = queues.find(node(f"n{number}"), "home", DROP_OLDEST, (1, 0), number / 100)
        assert found is not None
    first = queues.find(node("n0"), "home", DROP_OLDEST, (1, 0), 1.0)
    assert first is not None
    add(first, *map(event, range(1, 6)), upto=5)
    assert rows(take(first)) == [(0, 5, 3, False, slow(3), [4, 5])]
    late = QUEUE_TIMEOUT + 0.005
    assert queues.find(node("late"), "home", DROP_OLDEST, (1, 0), late) is None
    assert queues.find(node("late"), "home", DROP_OLDEST, (1, 0), late + 0.01) is not None
    assert len(queues) == MOST_QUEUES
    # That of `n1` was used least recently.
    assert queues.find(node("n1"), "home", DROP_OLDEST, (1, 0), late) is None
    queues.remove(node("late"), "home")
    queues.remove(node("late"), "home")
    assert len(queues) == MOST_QUEUES - 1


@pytest.mark.parametrize("policy", [DROP_OLDEST, BY_KEY])
def test_another_policy_starts_an_empty_queue(policy: object) -> None:
    queues = PageQueues(10, 1 << 20, QueueMemory())
    first = queues.find(READER, "home", DROP_NEWEST, (1, 0), 0.0)
    assert first is not None
    add(first, event(1), upto=1)
    second = queues.find(READER, "home", policy, (1, 0), 0.0)  # type: ignore[arg-type]
    assert second is not None and second is not first and second.is_empty
    # The first one has left its part of the bounds.
    add(second, *(event(i, str(i)) for i in range(1, 11)), upto=10)
    assert [len(events) for _, events in take(second)] == [10]


def test_queues_count_in_the_memory_of_all_queues_and_leave_it() -> None:
    size = event(10).size + ENTRY_BYTES
    memory = QueueMemory(8 * size)
    queues = PageQueues(1_000, 1 << 20, memory)
    found = [queues.find(node(f"n{n}"), "home", DROP_OLDEST, (1, 0), 0.0) for n in range(2)]
    for queue in found:
        assert queue is not None
        add(queue, *map(event, range(11, 21)), upto=20)
        assert memory.used <= memory.max_bytes
    first = found[0]
    assert first is not None
    # Half of the memory is for all: the second queue left the first one its part.
    assert rows(take(first)) == [(0, 20, 16, False, slow(6), [17, 18, 19, 20])]
    for n in range(2):
        queues.remove(node(f"n{n}"), "home")
    assert (memory.used, memory.holders) == (0, 0)
