from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from typing import Any

import pytest

from broker.client.received import ALL
from broker.sessions import session, time_slices
from broker.sessions.time_slices import MAX_SLICE_SECONDS
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulation import World
from tests.simulation.simulated_client import Reader, check_publishers, read_log
from tests.simulation.test_greedy_subscribers import Greedy, settings


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Time slices end at once, after one document each."""
    monkeypatch.setattr(time_slices, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr(session, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr(session, "MAX_DOCUMENTS", 1)
    with World(1, settings=settings(20)) as made:
        yield made


def test_time_slices_lose_nothing_and_keep_the_order(world: World) -> None:
    publisher = Publisher(world.client("publisher"))
    reader = Reader(world, world.client("reader"))
    greedy = Greedy(world)
    world.run(1.0)
    for round_ in range(5):
        greedy.ask(10 * round_, 10 * round_ + 10)
        for _ in range(20):
            publisher.publish()
        reader.read()
        world.run(0.001)
    world.run_until(lambda: greedy.answered == 50)
    world.run(1.0)
    reader.read()
    assert (len(greedy.accepted), len(greedy.refused)) == (20, 30)
    assert len(reader.events) == 100
    reader.check(read_log(world))
    world.check_outcomes()


@pytest.mark.parametrize("turn", [1, 5, 19])
def test_connection_broken_between_time_slices_loses_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, turn: int
) -> None:
    inner = time_slices.TimeSlices._run_later_slice
    begun = 0

    def cutting(self: time_slices.TimeSlices) -> None:
        nonlocal begun
        begun += 1
        if begun == turn:
            world.cut_client("greedy")
        inner(self)

    greedy = Greedy(world)
    world.run(1.0)
    monkeypatch.setattr(time_slices.TimeSlices, "_run_later_slice", cutting)
    greedy.ask(0, 30)
    world.run_until(lambda: greedy.answered == 30)
    assert begun >= 19
    assert (len(greedy.accepted), len(greedy.refused)) == (20, 10)
    publisher = Publisher(world.client("publisher"))
    world.run(1.0)
    publisher.publish("greedy.x", altitude=4)
    world.run(1.0)
    assert sum(len(each.take_ready()) for each in greedy.accepted) == 1
    world.check_outcomes()


# ---------------------------------------------------------------- one batch in many time slices

#: To match a document; documents of a batch.
MATCH_SECONDS = 0.003
DOCUMENTS = 300


@pytest.fixture
def slow_world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with World(1) as made:
        slow_down(made, monkeypatch)
        yield made


def slow_down(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    match = world.node.matcher.match

    def slowly(documents: Sequence[bytes], seconds: float, *more: Any, **named: Any) -> Any:
        count = min(max(1, ceil(seconds / MATCH_SECONDS)), len(documents))
        world.clock.rightNow += MATCH_SECONDS * count
        return match(documents[:count], seconds, *more, **named)

    def select_slowly(
        number: int,
        documents: Sequence[bytes],
        liveness: Any,
        seconds: float,
        *variants: Any,
        **named: Any,
    ) -> Any:
        count = min(max(1, ceil(seconds / MATCH_SECONDS)), len(documents))
        world.clock.rightNow += MATCH_SECONDS * count
        return select(number, documents[:count], liveness, seconds, *variants, **named)

    select = world.node.matcher.select
    monkeypatch.setattr(world.node.matcher, "match", slowly)
    monkeypatch.setattr(world.node.matcher, "select", select_slowly)


def run_calls(world: World, seconds: float) -> float:
    """Run call by call, as calls take time; return the longest one."""
    clock = world.clock
    end = clock.seconds() + seconds
    longest = 0.0
    while clock.calls and max(clock.seconds(), clock.calls[0].getTime()) < end:
        call = clock.calls.pop(0)
        clock.rightNow = max(clock.rightNow, call.getTime())
        call.called = 1
        before = clock.seconds()
        call.func(*call.args, **call.kw)
        longest = max(longest, clock.seconds() - before)
    clock.rightNow = max(clock.rightNow, end)
    return longest


def publish_batch(world: World, name: str = "publisher") -> Publisher:
    """Return when about a third of the batch is matched."""
    publisher = Publisher(world.client(name))
    run_calls(world, 1.0)
    for altitude in range(DOCUMENTS):
        publisher.publish(altitude=altitude)
    run_calls(world, DOCUMENTS * MATCH_SECONDS / 3)
    assert 0 < world.node.input.outcomes.accepted < DOCUMENTS
    assert publisher.results == []
    return publisher


def check_all(world: World, publisher: Publisher) -> None:
    log = read_log(world)
    altitudes = [t.altitude for t in log if t.header.event_id.client_id == "publisher"]
    assert altitudes == list(range(DOCUMENTS))
    check_publishers(log, [publisher], [], 1)
    world.check_outcomes()


def test_subscription_made_during_a_batch_gets_exactly_the_later_events(slow_world: World) -> None:
    world = slow_world
    before = Reader(world, world.client("before"))
    publisher = publish_batch(world)
    within = []
    for number in range(5):
        within.append(Reader(world, world.client(f"within-{number}")))
        durable = Reader(world, world.client(f"durable-{number}"), durable="d")
        within.append(durable)
        run_calls(world, 0.05)
    run_calls(world, 3.0)
    log = read_log(world)
    for reader in (before, *within):
        reader.read()
        reader.check(log)
    cuts = {reader.cut[1] for reader in within}
    assert len(cuts) >= 5 and 0 < min(cuts) <= max(cuts) < DOCUMENTS
    check_all(world, publisher)


def test_log_is_matched_in_time_slices(slow_world: World) -> None:
    world = slow_world
    publisher = publish_batch(world)
    run_calls(world, 3.0)
    reader = Reader(world, world.client("reader"), start=ALL)
    another = Reader(world, world.client("another"), start=ALL, durable="d")
    live = Reader(world, world.client("live"))
    assert run_calls(world, 5.0) < MAX_SLICE_SECONDS
    publisher.publish(altitude=DOCUMENTS)
    run_calls(world, 1.0)
    log = read_log(world)
    for each in (reader, another, live):
        each.read()
        each.check(log)
    assert [len(each.events) for each in (reader, another, live)] == [301, 301, 1]
    world.check_outcomes()


def test_batch_is_answered_once_while_other_clients_publish(
    slow_world: World,
) -> None:
    world = slow_world
    other = Publisher(world.client("other"))
    run_calls(world, 1.0)
    publisher = publish_batch(world)
    for _ in range(2):
        other.publish()
        run_calls(world, 0.2)
        assert len(other.receipts) == other.published
    assert publisher.results == []
    run_calls(world, 3.0)
    assert len(publisher.receipts) == DOCUMENTS
    assert not any(receipt.duplicate for receipt in publisher.receipts)
    check_publishers(read_log(world), [publisher, other], [], 1)
    check_all(world, publisher)


def test_full_disk_during_a_batch_keeps_the_order(
    slow_world: World,
) -> None:
    world = slow_world
    reader = Reader(world, world.client("reader"))
    run_calls(world, 1.0)
    publisher = publish_batch(world)
    world.disk.is_full = True
    for _ in range(10):
        publisher.publish(altitude=DOCUMENTS)
    run_calls(world, 0.1)
    assert world.node.event_log.failures == 1
    world.disk.is_full = False
    run_calls(world, 10.0)
    reader.read()
    log = read_log(world)
    reader.check(log)
    assert [entry.altitude for entry in log] == [*range(DOCUMENTS), *[DOCUMENTS] * 10]
    check_publishers(log, [publisher], [], 1)
    assert world.node.input.outcomes.duplicate > 0
    world.check_outcomes()


def test_connection_broken_during_a_batch_loses_nothing(slow_world: World) -> None:
    world = slow_world
    publisher = publish_batch(world)
    world.cut_client("publisher")
    run_calls(world, 5.0)
    assert not any(receipt.duplicate for receipt in publisher.receipts)
    check_all(world, publisher)


def test_client_killed_during_a_batch_leaves_the_rest_unpublished(slow_world: World) -> None:
    world = slow_world
    publisher = publish_batch(world)
    world.kill_client(publisher.client)
    again = world.client("publisher", incarnation=2)
    run_calls(world, 5.0)
    log = read_log(world)
    assert 0 < len(log) < DOCUMENTS
    assert [entry.altitude for entry in log] == list(range(len(log)))
    check_publishers(log, [], [publisher], 1)
    assert not again.unacknowledged
    world.check_outcomes()


def test_node_killed_during_a_batch_gets_it_again(
    slow_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = slow_world
    publisher = publish_batch(world)
    world.kill_node()
    world.start_node()
    slow_down(world, monkeypatch)
    run_calls(world, 10.0)
    assert any(receipt.duplicate for receipt in publisher.receipts)
    check_all(world, publisher)
