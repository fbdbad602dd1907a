"""Retention overtakes a slow reader, which gets the rest from the archive (X6)."""

from __future__ import annotations

import pytest

from broker.client.received import STORED
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, name_of, read
from tests.seeds import seeds
from tests.simulation.network.test_gaps import overflow_log, short_log

SEEDS = seeds(1, 4)


@pytest.mark.parametrize("seed", SEEDS)
def test_slow_reader_gets_removed_events_from_the_archive(seed: int) -> None:
    with NetworkWorld(seed, archived=True) as world:
        world.add("a", "one", settings=short_log())
        world.run(1.0)
        publisher = Publisher(world.client("publisher", "a"))
        client = world.client("slow", "a", window_bytes=1 << 18)
        slow = Reader(world, client, durable="d")
        world.run_until(lambda: slow.is_flowing)
        for _ in range(6):
            overflow_log(world, publisher, 10)
            world.run(3.0)
        read(world, slow, seconds=60.0)
        overflow_log(world, publisher, 3)
        read(world, slow, seconds=60.0)
        assert world.archive is not None and world.archive.requests
        received = [each.event_id.sequence_number for each in slow.events]
        assert received == list(range(1, publisher.published + 1))
        assert slow.error is None and slow.gaps == []


@pytest.mark.parametrize("seed", SEEDS)
def test_slow_reader_gets_all_events_of_a_node_that_is_new_to_it(
    seed: int,
) -> None:
    with NetworkWorld(seed, archived=True) as world:
        world.add("a", "one", settings=short_log())
        world.run(1.0)
        first = Publisher(world.client("first", "a"))
        process = world.client("away", "a")
        absent_reader = Reader(world, process, durable="d")
        world.run_until(lambda: absent_reader.is_flowing)
        first.publish()
        read(world, absent_reader)
        world.kill_client(process)
        world.add("b", "one", join=["a"])
        world.run(4.0)
        # More than a session accepts at once, then events that the position does not name.
        overflow_log(world, first, 12)
        second = Publisher(world.client("second", "b"))
        for _ in range(5):
            second.publish()
        world.run(5.0)
        origin = world["b"].event_log.origin
        returning_client = world.client("away", "a", incarnation=2, window_bytes=1 << 18)
        slow = Reader(world, returning_client, durable="d", start=STORED)
        world.run_until(lambda: slow.is_flowing)
        assert origin in world["a"].event_log.coverage and slow.subscription is not None
        for _ in range(6):
            overflow_log(world, first, 10)
            world.run(3.0)
        read(world, slow, seconds=90.0)
        received = [name_of(each) for each in slow.events]
        for publisher, since in ((first, 2), (second, 1)):
            name = publisher.client.client_id
            numbers = [number for client_id, _, number in received if client_id == name]
            assert numbers == list(range(since, publisher.published + 1)), name
        assert slow.error is None and slow.gaps == []
