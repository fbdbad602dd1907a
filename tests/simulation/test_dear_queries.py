"""Queries that turn out too expensive while running end alone, and lose nothing on the way out."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pytest

from broker.client.received import ALL
from broker.errors import QueryTooExpensive
from broker.matching import budget
from broker.matching.evaluation import CompiledXPath, Subject
from broker.testing.simulation import World
from tests.simulation.watching import INTERESTS, Publisher, Reader, truths

#: No shape decides it: what is decided by an index has no budget to break.
UNDECIDED = attrs.evolve(INTERESTS[1], query="count(//altitude[. > 500]) = 1")


class Stopwatch:
    """Measures what it is told to instead of how long a query ran."""

    def __init__(self, world: World) -> None:
        self.slow = False
        self.now = 0.0
        world.node.matcher._single._budget._bounds.clock = self
        world.node.matcher._accounts._clock = self

    def __call__(self) -> float:
        self.now += 10_000.0 if self.slow else 0.0
        return self.now


@pytest.fixture
def world() -> Iterator[World]:
    with World(1) as world:
        yield world


def test_a_query_that_breaks_its_budget_live_is_ended_and_nothing_else_is(world: World) -> None:
    publisher = Publisher(world, world.client("publisher"))
    client = world.client("reader")
    dear, cheap = Reader(world, client, UNDECIDED), Reader(world, client)
    world.run(1.0)
    stopwatch = Stopwatch(world)
    publisher.publish(altitude=600)
    world.run(1.0)
    stopwatch.slow = True
    publisher.publish(altitude=600)
    world.run(1.0)
    stopwatch.slow = False
    publisher.publish(altitude=600)
    world.run(1.0)
    for reader in (dear, cheap):
        reader.read()
    assert dear.subscription is not None and isinstance(dear.subscription._error, QueryTooExpensive)
    assert [event.place.offset for event in dear.events] == [1]
    cheap.check(truths(world))
    assert len(cheap.events) == 3
    world.check_outcomes()


def test_a_durable_one_that_breaks_it_while_catching_up_keeps_its_position(world: World) -> None:
    publisher = Publisher(world, world.client("publisher"))
    for _ in range(10):
        publisher.publish(altitude=600)
    world.run(1.0)
    client = world.client("reader", incarnation=1)
    stopwatch = Stopwatch(world)
    stopwatch.slow = True
    dear = Reader(world, client, UNDECIDED, durable="d", start=ALL)
    world.run(3.0)
    dear.read()
    assert dear.subscription is not None and isinstance(dear.subscription._error, QueryTooExpensive)
    assert dear.events == []
    world.check_outcomes()
    stopwatch.slow = False
    again = Reader(world, client, INTERESTS[1], durable="d")
    world.run(3.0)
    again.read()
    assert [event.place.offset for event in again.events] == list(range(1, 11))
    world.check_outcomes()


def test_who_has_many_slow_queries_loses_them_and_nobody_else_does(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them takes what the other client's takes, which is no more than is allowed."""
    stopwatch = Stopwatch(world)
    matches = CompiledXPath.matches

    def slowly(compiled: CompiledXPath, subject: Subject) -> bool:
        stopwatch.now += 3_000.0
        return matches(compiled, subject)

    monkeypatch.setattr(CompiledXPath, "matches", slowly)
    monkeypatch.setattr(budget, "_SECONDS_A_VISIT", 1.0e9)
    publisher = Publisher(world, world.client("publisher"))
    other = Reader(world, world.client("other"), UNDECIDED)
    client = world.client("greedy")
    greedy = [
        Reader(world, client, attrs.evolve(UNDECIDED, query=f"count(//altitude[. > {n}]) = 1"))
        for n in range(501, 541)
    ]
    world.run(1.0)
    for _ in range(10):
        publisher.publish(altitude=600)
        stopwatch.now += 40_000.0
        world.run(1.0)
    other.read()
    other.check(truths(world))
    assert len(other.events) == 10
    ended = [
        isinstance(each.subscription._error, QueryTooExpensive)
        for each in greedy
        if each.subscription is not None
    ]
    assert len(ended) == 40 and 37 <= sum(ended) <= 39
    for each in greedy:
        each.read()
    assert sorted({len(each.events) for each in greedy})[-1] == 10
    world.check_outcomes()
