"""Events removed by retention are reported as a gap with its bounds, before later events."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pytest

from broker.client.received import Gap
from broker.config import Settings
from broker.event.place import Place
from broker.testing.flights import INTERESTS
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulation import World
from tests.simulation.simulated_client import Reader, offsets, publish, read


@pytest.fixture
def small() -> Iterator[World]:
    settings = Settings()
    with World(
        1, settings=attrs.evolve(settings, log=attrs.evolve(settings.log, max_bytes=200_000))
    ) as world:
        yield world


def test_events_removed_by_retention_are_reported_as_one_gap(small: World) -> None:
    world = small
    publisher = Publisher(world.client("publisher"))
    first = Reader(world, world.client("reader", incarnation=1), durable="d")
    world.run(1.0)
    publish(world, publisher, 10)
    read(world, first)
    world.kill_client(first.client)
    for _ in range(20):
        publish(world, publisher, 50)
    second = Reader(world, world.client("reader", incarnation=2), durable="d")
    read(world, second, seconds=5.0)
    # The commit of the new session may have removed more.
    bounds = world.node.event_log.bounds
    assert 100 < bounds.first < bounds.last == 1010
    origin = world.node.event_log.origin
    (gap,) = second.gaps
    first_gone, last_gone = (Place(origin, bounds.epoch, n) for n in (11, bounds.first - 1))
    assert gap == Gap(first_gone, last_gone, bounds.first - 11, "retention")
    assert second.items[0] is gap
    assert offsets(second) == list(range(bounds.first, 1011))
    world.check_outcomes()


def test_position_moves_past_a_gap_of_an_earlier_epoch(
    small: World,
) -> None:
    world = small
    publisher = Publisher(world.client("publisher"))
    first = Reader(world, world.client("reader", incarnation=1), durable="d")
    world.run(1.0)
    publish(world, publisher, 10)
    read(world, first)
    world.kill_client(first.client)
    for _ in range(20):
        publish(world, publisher, 50)
    epoch = world.node.event_log.bounds.epoch
    world.kill_node()
    world.start_node()
    world.run(2.0)
    assert world.node.event_log.bounds.epoch > epoch
    second = Reader(world, world.client("reader", incarnation=2), durable="d")
    read(world, second, seconds=5.0)
    assert second.gaps[0].last.epoch == epoch
    got = offsets(second)
    assert got[-1] == 1010
    # The node loses the session.
    world.kill_node()
    world.start_node()
    read(world, second, seconds=5.0)
    assert offsets(second) == got
    world.kill_client(second.client)
    third = Reader(world, world.client("reader", incarnation=3), durable="d")
    read(world, third, seconds=3.0)
    assert offsets(third) == [] and third.gaps == []


def test_rarely_matching_query_does_not_hold_back_retention(small: World) -> None:
    world = small
    publisher = Publisher(world.client("publisher"))
    rare = Reader(world, world.client("reader"), INTERESTS[3], durable="d")
    world.run(1.0)
    for _ in range(20):
        publish(world, publisher, 50)
        read(world, rare, seconds=2.0)
    assert world.node.event_log.bounds.first > 100
    stored = world.node.durables.get("reader", "d")
    assert stored is not None
    assert [offset for _, offset in stored.position.marks.values()] == [1000]
    world.cut_client("reader")
    world.kill_node()
    world.start_node()
    publisher.publish(altitude=7)
    read(world, rare, seconds=5.0)
    assert rare.gaps == [] and offsets(rare) == [1001]
