from __future__ import annotations

import random
from collections import Counter

import attrs
import pytest

from broker.event.place import Mark
from broker.streams.bounded_queue import BoundedQueue, LostRange, QueueBudget
from broker.streams.queue_policy import (
    BLOCK,
    DROP_NEWEST,
    DROP_OLDEST,
    FAIL,
    Admission,
    Coalesce,
    IQueuePolicy,
)
from tests.seeds import seeds


@attrs.frozen
class Thing:
    number: int
    size: int = 10
    origin: str = "n"

    @property
    def mark(self) -> Mark:
        return (1, self.number)


Queue = BoundedQueue[Thing, str]
COALESCE = Coalesce()


def make_queue(policy: IQueuePolicy, items: int = 3, size: int = 1000) -> Queue:
    return BoundedQueue(policy, QueueBudget(items, size))


def fill(queue: Queue, *numbers: int, keys: str = "", owners: str = "a") -> list[Admission]:
    return [
        queue.add(Thing(number), list(owners), keys[i] if keys else None).admission
        for i, number in enumerate(numbers)
    ]


def drain(queue: Queue) -> list[object]:
    """Return numbers of items, and (owner, first, last, count, whether coalesced) of losses."""
    found: list[object] = []
    while queue.has_pending:
        for owner, origin, lost in queue.take_losses():
            assert origin == "n"
            found.append((owner, lost.first[1], lost.last[1], lost.count, lost.is_coalesced))
        found += [item.number for item, _ in queue.take(len(queue.peek(2)))]
    return found


def test_the_oldest_are_dropped_and_reported_first() -> None:
    queue = make_queue(DROP_OLDEST)
    assert fill(queue, 1, 2, 3, 4, 6) == [Admission.TAKEN] * 5
    added = queue.add(Thing(7, 985), ["a"])
    assert [dropped.item.number for dropped in added.dropped] == [3, 4]
    assert (len(queue), queue.bytes) == (2, 995)
    assert drain(queue) == [("a", 1, 4, 4, False), 6, 7]


def test_the_newest_are_dropped_and_reported_in_their_place() -> None:
    queue = make_queue(DROP_NEWEST)
    fill(queue, 1, 2, 3)
    added = queue.add(Thing(4), ["a"])
    assert added.admission is Admission.DROPPED
    assert [dropped.item.number for dropped in added.dropped] == [4]
    fill(queue, 5)
    queue.take(1)
    assert fill(queue, 6, 7) == [Admission.TAKEN, Admission.DROPPED]
    assert drain(queue) == [2, 3, ("a", 4, 5, 2, False), 6, ("a", 7, 7, 1, False)]


def test_a_blocking_or_failed_queue_does_not_take_the_item() -> None:
    for policy, admission in ((BLOCK, Admission.WAITS), (FAIL, Admission.FAILED)):
        queue = make_queue(policy)
        assert fill(queue, 1, 2, 3, 4)[-1] is admission
        assert drain(queue) == [1, 2, 3]
        assert fill(queue, 5) == [Admission.TAKEN]


def test_a_newer_item_replaces_the_one_with_its_key() -> None:
    queue = make_queue(COALESCE)
    fill(queue, 1, 2, 3, 4, keys="xyyx")
    assert (len(queue), queue.bytes) == (2, 20)
    # 2 lies between the items that are sent.
    assert drain(queue) == [("a", 1, 2, 2, True), 3, 4]
    fill(queue, 1, 2, 3, 4, keys="xyzy")
    assert drain(queue) == [1, ("a", 2, 2, 1, True), 3, 4]


def test_a_coalescing_queue_drops_the_oldest_of_too_many_keys() -> None:
    queue = make_queue(COALESCE)
    fill(queue, 1, 2, 3, 4, 5, keys="wxyzz")
    assert drain(queue) == [("a", 1, 1, 1, False), 2, 3, ("a", 4, 4, 1, True), 5]
    fill(queue, 1, 2, 3, 4, 5, keys="wwxyz")
    # A range with both kinds counts as dropped.
    assert drain(queue) == [("a", 1, 2, 2, False), 3, 4, 5]


def test_items_without_a_key_or_for_more_owners_are_not_replaced() -> None:
    queue = make_queue(COALESCE, items=10)
    queue.add(Thing(1), ["a"])
    queue.add(Thing(2), ["a"])
    queue.add(Thing(3), ["a", "b"], "x")
    queue.add(Thing(4), ["a"], "x")
    queue.add(Thing(5), ["a", "c"], "x")
    assert drain(queue) == [1, 2, 3, ("a", 4, 4, 1, True), 5]


def test_an_item_above_the_bounds_is_dropped() -> None:
    for policy in (DROP_OLDEST, DROP_NEWEST, COALESCE):
        queue = make_queue(policy)
        fill(queue, 1)
        added = queue.add(Thing(2, 1001), ["a"], "x")
        assert added.admission is Admission.DROPPED
        lost = 2 if policy is DROP_OLDEST else 1
        assert len(added.dropped) == lost


def test_an_item_is_not_replaced_by_one_that_is_dropped() -> None:
    queue = make_queue(COALESCE)
    queue.add(Thing(1), ["a"], "x")
    queue.add(Thing(2, 1001), ["a"], "x")
    assert drain(queue) == [1, ("a", 2, 2, 1, False)]


def test_queues_share_a_budget_in_equal_parts() -> None:
    budget = QueueBudget(6, 1000)
    first: Queue = BoundedQueue(DROP_OLDEST, budget)
    fill(first, *range(1, 9))
    assert len(first) == 6
    second: Queue = BoundedQueue(COALESCE, budget)
    assert fill(second, 9) == [Admission.DROPPED]
    fill(first, 10)
    assert len(first) == 3
    fill(second, 11, 12, 13, 14)
    assert (len(first), len(second), budget.items, budget.bytes) == (3, 3, 6, 60)
    second.close()
    fill(first, 15, 16, 17)
    assert (len(first), budget.items) == (6, 6)


def test_a_removed_owner_has_neither_items_nor_losses() -> None:
    queue = make_queue(DROP_OLDEST)
    fill(queue, 1, owners="ab")
    fill(queue, 2, 3, owners="b")
    fill(queue, 4, owners="ab")
    assert queue.remove_owner("b") == 3
    assert (len(queue), queue.count_for("a"), queue.count_for("b")) == (1, 1, 0)
    assert drain(queue) == [("a", 1, 1, 1, False), 4]


def test_an_owner_that_reads_its_items_elsewhere_keeps_earlier_losses_only() -> None:
    queue = make_queue(COALESCE, items=10)
    fill(queue, 1, 2, 3, 4, 5, 6, keys="xxyzzz")
    items, lost, unlogged = queue.take_items_of("a")
    assert ([item.number for item in items], lost, unlogged) == ([2, 3, 6], 2, [])
    assert drain(queue) == [("a", 1, 1, 1, True)]


def test_losses_from_before_the_queue_are_reported_in_their_place() -> None:
    queue = make_queue(COALESCE, items=10)
    unlogged = LostRange((1, 2), (1, 4), 3, True, is_logged=False)
    queue.add_loss("a", "n", unlogged)
    fill(queue, 5, 6, 7, keys="xyx")
    later = LostRange((1, 8), (1, 9), 1, False, is_logged=False)
    queue.add_loss("a", "n", later)
    fill(queue, 10, keys="x")
    assert queue._budget.unreported == 6
    assert drain(queue) == [("a", 2, 5, 4, True), 6, ("a", 7, 9, 2, False), 10]
    assert queue._budget.unreported == 0


def test_an_owner_that_reads_its_items_elsewhere_gets_the_losses_that_are_not_there() -> None:
    queue = make_queue(COALESCE, items=10)
    first = LostRange((1, 1), (1, 2), 2, True, is_logged=False)
    queue.add_loss("a", "n", first)
    fill(queue, 3, 4, 5, keys="xyx")
    later = LostRange((1, 6), (1, 9), 3, True, is_logged=False)
    queue.add_loss("a", "n", later)
    items, lost, unlogged = queue.take_items_of("a")
    assert ([item.number for item in items], lost) == ([4, 5], 0)
    assert unlogged == [("n", later)]
    assert drain(queue) == [("a", 1, 3, 3, True)]


def test_losses_in_the_middle_are_merged() -> None:
    queue = make_queue(COALESCE, items=10)
    queue.add(Thing(0), ["a"], "first")
    for number in range(1, 1001):
        queue.add(Thing(number), ["a"], "xy"[number % 2])
    assert len(queue._entries) < 100
    assert drain(queue) == [0, ("a", 1, 998, 998, True), 999, 1000]


@pytest.mark.parametrize("seed", seeds(40, 2000))
@pytest.mark.parametrize("policy", [BLOCK, DROP_OLDEST, DROP_NEWEST, COALESCE, FAIL], ids=str)
def test_each_item_is_delivered_or_reported_once_in_order(policy: IQueuePolicy, seed: int) -> None:
    chance = random.Random(seed)
    budget = QueueBudget(chance.randint(1, 20), chance.randint(30, 400))
    queue: Queue = BoundedQueue(policy, budget)
    other: Queue | None = BoundedQueue(DROP_OLDEST, budget) if seed % 2 else None
    owners = "ab" if policy is not COALESCE else "a"
    taken: dict[str, list[Thing]] = {owner: [] for owner in owners}
    out: dict[str, list[Thing | tuple[str, LostRange]]] = {owner: [] for owner in owners}
    dropped: Counter[str] = Counter()
    newest_by_key: dict[str, Thing] = {}

    def send(count: int) -> None:
        for owner, origin, lost in queue.take_losses():
            out[owner].append((origin, lost))
        for item, of in queue.take(len(queue.peek(count))):
            for owner in of:
                out[owner].append(item)

    for number in range(1, 300):
        if other is not None and chance.random() < 0.3:
            other.add(Thing(number, chance.randint(1, 60)), ["z"])
        item = Thing(number, chance.randint(1, 60), chance.choice("mn"))
        of = [owner for owner in owners if chance.random() < 0.7]
        key = chance.choice(["", *"uvwxyz"]) or None
        if of:
            added = queue.add(item, list(of), key)
            for each in added.dropped:
                dropped.update(each.owners)
            if added.admission in (Admission.TAKEN, Admission.DROPPED):
                for owner in of:
                    taken[owner].append(item)
            if added.admission is Admission.TAKEN and key:
                newest_by_key[key] = item
        if chance.random() < 0.25:
            send(chance.randint(0, 4))
        assert budget.items <= budget.max_items and budget.bytes <= budget.max_bytes
        assert len(queue._entries) <= 2 * len(queue) + 66
    while queue.has_pending:
        send(5)
    assert (len(queue), queue.bytes, queue._by_key) == (0, 0, {})
    assert other is not None or budget.unreported == 0
    for owner, items in taken.items():
        for origin in "mn":
            _check(
                [item for item in items if item.origin == origin],
                [
                    each if isinstance(each, Thing) else each[1]
                    for each in out[owner]
                    if (each.origin if isinstance(each, Thing) else each[0]) == origin
                ],
            )
        lost = sum(each[1].count for each in out[owner] if not isinstance(each, Thing))
        assert lost == dropped[owner]
        if policy in (BLOCK, FAIL):
            assert lost == 0
    if policy is COALESCE:
        _check_newest(newest_by_key, out["a"])


def _check(items: list[Thing], out: list[Thing | LostRange]) -> None:
    """Items and losses of one origin alternate in order; a range counts exactly its items."""
    rest = [item.number for item in items]
    for each in out:
        if isinstance(each, Thing):
            assert rest.pop(0) == each.number
        else:
            counted, rest = rest[: each.count], rest[each.count :]
            assert (counted[0], counted[-1]) == (each.first[1], each.last[1])
    assert rest == []


def _check_newest(newest: dict[str, Thing], out: list[Thing | tuple[str, LostRange]]) -> None:
    """The newest item of a key is delivered, unless the bounds of the queue drop it."""
    sent = {each.number for each in out if isinstance(each, Thing)}
    ranges = [each[1] for each in out if not isinstance(each, Thing)]
    for item in newest.values():
        assert item.number in sent or any(
            lost.first[1] <= item.number <= lost.last[1] and not lost.is_coalesced
            for lost in ranges
        )
