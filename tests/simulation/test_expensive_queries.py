"""Queries over their budget end alone and lose no events."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pytest

from broker.client.received import ALL
from broker.errors import QueryTooExpensive
from broker.matching import budget
from broker.matching.switch import Switch
from broker.matching.xpath_evaluation import CompiledXPath, ParsedEvent
from broker.testing.flights import INTERESTS
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulation import World
from tests.simulation.simulated_client import Reader, read_log

#: An index would answer without a budget.
UNDECIDED = attrs.evolve(INTERESTS[1], query="count(//altitude[. > 500]) = 1")


class Stopwatch:
    def __init__(self, world: World) -> None:
        self.slow = False
        self.now = 0.0
        matcher = world.node.matcher
        assert isinstance(matcher, Switch)
        bounds = matcher._evaluator._budget._bounds
        bounds.clock = bounds.processor_clock = self
        matcher._time_shares._clock = self

    def __call__(self) -> float:
        self.now += 10_000.0 if self.slow else 0.0
        return self.now


@pytest.fixture
def world() -> Iterator[World]:
    with World(1) as world:
        yield world


def test_live_query_over_its_budget_ends_alone(world: World) -> None:
    publisher = Publisher(world.client("publisher"))
    client = world.client("reader")
    expensive, cheap = Reader(world, client, UNDECIDED), Reader(world, client)
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
    for reader in (expensive, cheap):
        reader.read()
    assert expensive.subscription is not None and isinstance(
        expensive.subscription._error, QueryTooExpensive
    )
    assert [event.place.offset for event in expensive.events] == [1]
    cheap.check(read_log(world))
    assert len(cheap.events) == 3
    world.check_outcomes()


def test_durable_subscription_over_its_budget_keeps_its_position(world: World) -> None:
    publisher = Publisher(world.client("publisher"))
    for _ in range(10):
        publisher.publish(altitude=600)
    world.run(1.0)
    client = world.client("reader", incarnation=1)
    stopwatch = Stopwatch(world)
    stopwatch.slow = True
    expensive = Reader(world, client, UNDECIDED, durable="d", start=ALL)
    world.run(3.0)
    expensive.read()
    assert expensive.subscription is not None and isinstance(
        expensive.subscription._error, QueryTooExpensive
    )
    assert expensive.events == []
    world.check_outcomes()
    stopwatch.slow = False
    again = Reader(world, client, INTERESTS[1], durable="d")
    world.run(3.0)
    again.read()
    assert [event.place.offset for event in again.events] == list(range(1, 11))
    world.check_outcomes()


def test_many_slow_queries_of_one_client_end_only_that_clients_subscriptions(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopwatch = Stopwatch(world)
    matches = CompiledXPath.matches

    def slowly(compiled: CompiledXPath, subject: ParsedEvent) -> bool:
        stopwatch.now += 3_000.0
        return matches(compiled, subject)

    monkeypatch.setattr(CompiledXPath, "matches", slowly)
    monkeypatch.setattr(budget, "_SECONDS_A_VISIT", 1.0e9)
    publisher = Publisher(world.client("publisher"))
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
    other.check(read_log(world))
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
