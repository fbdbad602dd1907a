from __future__ import annotations

from broker.cluster.address import Address
from broker.cluster.fair_queue import FairQueue

GREEDY, MODEST = (Address(("c",), name) for name in ("greedy", "modest"))


def take_all(queue: FairQueue[int, str]) -> list[str]:
    taken = [queue.take_next() for _ in range(len(queue))]
    assert not queue
    return taken


def test_nodes_have_turns() -> None:
    queue: FairQueue[int, str] = FairQueue(9)
    for number in range(4):
        queue.add(GREEDY, number, f"greedy {number}")
    queue.add(MODEST, 7, "modest 7")
    assert take_all(queue) == ["greedy 0", "modest 7", "greedy 1", "greedy 2", "greedy 3"]


def test_a_request_replaces_that_with_its_key() -> None:
    queue: FairQueue[int, str] = FairQueue(2)
    queue.add(MODEST, 1, "first")
    queue.add(MODEST, 2, "second")
    assert queue.add(MODEST, 1, "newer") is None
    assert queue.add(MODEST, 1, "older", replaces=False) is None
    assert take_all(queue) == ["newer", "second"]


def test_at_the_bound_the_node_with_the_most_loses_its_newest() -> None:
    queue: FairQueue[int, str] = FairQueue(3)
    for number in range(3):
        assert queue.add(GREEDY, number, f"greedy {number}") is None
    assert queue.add(GREEDY, 3, "greedy 3") == "greedy 3"
    assert queue.add(MODEST, 7, "modest 7") == "greedy 2"
    assert take_all(queue) == ["greedy 0", "modest 7", "greedy 1"]


def test_a_node_without_requests_is_not_stored() -> None:
    queue: FairQueue[int, str] = FairQueue(1)
    for number in range(3):
        queue.add(Address(("c",), f"n{number}"), number, "")
        queue.take_next()
    assert not queue and not queue._by_node
