from __future__ import annotations

import pytest

from broker.testing.flights import INTERESTS
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader
from tests.seeds import seeds
from tests.simulation.network.simulated_client import settle


@pytest.mark.parametrize("seed", seeds(1, 5))
def test_events_that_a_full_disk_rejected_come_again(seed: int) -> None:
    with NetworkWorld(seed, thread_delay=0.02) as world:
        world.add("a", "one")
        world.add("b", "two", gateways=["a"])
        world.run(3.0)
        publisher = Publisher(world.client("publisher", "a"))
        readers = [Reader(world, world.client("reader", "b"))]
        readers.append(Reader(world, world.client("durable", "b"), INTERESTS[1], durable="d"))
        world.run(2.0)
        full = False
        for _ in range(200):
            for _ in range(world.random.randrange(4)):
                publisher.publish(altitude=world.random.choice((100, 1000)))
            if world.random.random() < 0.1:
                full = not full
                world.set_disk_full("b", full)
            for reader in readers:
                reader.read()
            world.run(world.random.choice((0.0, 0.01, 0.1, 0.3)))
        world.set_disk_full("b", False)
        world.run(70.0)
        settle(world, [publisher], readers)
        assert world["b"].event_log.failures > 0
        assert not any(reader.gaps for reader in readers)
