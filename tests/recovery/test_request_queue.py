from __future__ import annotations

from broker.cluster.address import Address
from broker.recovery.messages import FetchPage
from broker.recovery.request_queue import RequestQueue

OWN = Address(("c",), "own")


def request(node: str, number: int) -> FetchPage:
    source = Address(("c",), node)
    return FetchPage(OWN, source, 8, number, "", "", ">", "true()", {}, 0, (), 0)


def take_all(queue: RequestQueue) -> list[tuple[str, int]]:
    taken = [queue.take_next() for _ in range(len(queue))]
    assert not queue
    return [(each.source.node, each.request) for each in taken]


def test_nodes_have_turns() -> None:
    queue = RequestQueue(9)
    for number in range(4):
        queue.add(request("greedy", number))
    queue.add(request("modest", 7))
    order = [("greedy", 0), ("modest", 7), ("greedy", 1), ("greedy", 2), ("greedy", 3)]
    assert take_all(queue) == order


def test_a_request_that_waits_is_not_added_again() -> None:
    queue = RequestQueue(1)
    assert queue.add(request("a", 1)) is None
    assert queue.add(request("a", 1)) is None
    assert take_all(queue) == [("a", 1)]


def test_at_the_bound_the_node_with_the_most_loses_its_newest() -> None:
    queue = RequestQueue(3)
    for number in range(3):
        assert queue.add(request("greedy", number)) is None
    newest = request("greedy", 3)
    assert queue.add(newest) is newest
    dropped = queue.add(request("modest", 7))
    assert dropped is not None and (dropped.source.node, dropped.request) == ("greedy", 2)
    assert take_all(queue) == [("greedy", 0), ("modest", 7), ("greedy", 1)]


def test_a_node_without_requests_is_not_stored() -> None:
    queue = RequestQueue(1)
    for number in range(3):
        queue.add(request(f"n{number}", number))
        queue.take_next()
    assert not queue and not queue._by_node
