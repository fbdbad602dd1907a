"""Queries that turn out too expensive while running end alone, and lose nothing on the way out."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pytest

from broker.client.received import ALL
from broker.errors import QueryTooExpensive
from broker.testing.simulation import World
from tests.simulation.watching import INTERESTS, Publisher, Reader, truths

#: No shape decides it: what is decided by an index has no budget to break.
UNDECIDED = attrs.evolve(INTERESTS[1], query="count(//altitude[. > 500]) = 1")


class Stopwatch:
    """Measures what it is told to instead of how long a query ran."""

    def __init__(self, world: World) -> None:
        self.slow = False
        self._now = 0.0
        world.node.matcher._single._budget.clock = self

    def __call__(self) -> float:
        self._now += 10_000.0 if self.slow else 0.0
        return self._now


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
