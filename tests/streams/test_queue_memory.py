"""Memory of all queues of a node together."""

from __future__ import annotations

import random

import pytest

from broker.limit_registry import LimitRegistry
from broker.queue_memory import ENTRY_BYTES, HeldBytes, QueueMemory
from broker.streams.bounded_queue import BoundedQueue, QueueBudget
from broker.streams.queue_policy import (
    DROP_NEWEST,
    DROP_OLDEST,
    FAIL,
    Admission,
    Coalesce,
    IQueuePolicy,
)
from tests.streams.test_bounded_queue import Queue, Thing

SIZE = 1_000
COST = SIZE + ENTRY_BYTES
#: Room for so many things.
ROOM = 100


def make_memory() -> QueueMemory:
    return QueueMemory(ROOM * COST)


def make_queue(memory: QueueMemory, policy: IQueuePolicy = DROP_OLDEST) -> Queue:
    return BoundedQueue(policy, QueueBudget(10_000, 10**9, memory=memory))


def add(queue: Queue, *numbers: int) -> list[Admission]:
    return [queue.add(Thing(number, SIZE), ["a"]).admission for number in numbers]


def test_one_queue_alone_may_use_half() -> None:
    memory = make_memory()
    queue = make_queue(memory)
    add(queue, *range(2 * ROOM))
    assert len(queue.peek(1000)) == ROOM // 2
    assert queue.peek(1)[0].number == 2 * ROOM - ROOM // 2
    queue.clear()
    assert (memory.used, memory.holders) == (0, 0)


def test_the_largest_queue_is_full_first_and_small_ones_keep_their_items() -> None:
    memory = make_memory()
    large, small = make_queue(memory), make_queue(memory)
    add(small, *range(5))
    add(large, *range(ROOM))
    add(small, *range(5, 20))
    assert [each.number for each in small.peek(100)] == list(range(20))
    add(large, ROOM)
    assert len(large.peek(100)) == ROOM // 2 - 20
    assert large.peek(100)[-1].number == ROOM


def test_all_queues_together_stay_below_the_bound() -> None:
    guess = random.Random(4)
    memory = make_memory()
    policies: list[IQueuePolicy] = [DROP_OLDEST, DROP_NEWEST, FAIL, Coalesce()]
    queues = [make_queue(memory, policies[n % 4]) for n in range(40)]
    for number in range(5_000):
        # Most queues are idle behind the first additions.
        queue = queues[min(guess.randrange(40), number // 50)]
        queue.add(Thing(number, guess.choice([10, SIZE, 5 * SIZE])), ["a"], guess.choice("xyz"))
        assert memory.used <= memory.max_bytes
    for queue in queues:
        queue.clear()
    assert (memory.used, memory.holders) == (0, 0)


@pytest.mark.parametrize(
    ("policy", "admission"), [(DROP_NEWEST, Admission.DROPPED), (FAIL, Admission.FAILED)]
)
def test_the_policy_of_the_queue_applies(policy: IQueuePolicy, admission: Admission) -> None:
    limits = LimitRegistry()
    memory = QueueMemory(ROOM * COST, limits)
    queue = make_queue(memory, policy)
    found = add(queue, *range(ROOM // 2 + 1))
    assert found == [Admission.TAKEN] * (ROOM // 2) + [admission]
    (limit,) = limits
    assert limit.reached == 1 and limit.find_used() == ROOM // 2 * COST


def test_an_event_in_many_queues_counts_once() -> None:
    memory = make_memory()
    queues = [make_queue(memory) for _ in range(5)]
    things = [Thing(number, SIZE) for number in range(10)]
    for queue in queues:
        for thing in things:
            queue.add(thing, ["a"])
    assert memory.used == 10 * SIZE + 50 * ENTRY_BYTES
    for queue in queues[1:]:
        queue.clear()
    assert memory.used == 10 * COST


def test_a_send_buffer_stops_at_its_part_and_an_empty_one_never() -> None:
    memory = make_memory()
    buffers = [HeldBytes(memory) for _ in range(4)]
    assert all(each.resize(ROOM * COST // 10) for each in buffers[:3])
    assert memory.holders == 3
    assert not buffers[0].resize(ROOM * COST // 2)
    assert buffers[3].resize(0) and buffers[3].resize(COST)
    assert buffers[0].resize(0) and (memory.holders, memory.used) == (
        3,
        2 * ROOM * COST // 10 + COST,
    )
