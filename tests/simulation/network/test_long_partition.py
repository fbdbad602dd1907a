from __future__ import annotations

import pytest

from broker.testing.flights import INTERESTS
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, name_of, read
from tests.seeds import seeds


@pytest.mark.parametrize("seed", seeds(1, 3))
@pytest.mark.parametrize("seconds", [10.0, 60.0, 200.0])
@pytest.mark.parametrize("far", [False, True], ids=["own cluster", "other cluster"])
def test_reconnected_node_gets_the_events_of_its_interest(
    seed: int, seconds: float, far: bool
) -> None:
    with NetworkWorld(seed) as world:
        world.add("a", "one")
        world.add("b", "two" if far else "one", gateways=["a"] * far, join=["a"] * (not far))
        world.add("lone", "two" if far else "one", join=["b"])
        world.run(8.0)
        publisher = Publisher(world.client("publisher", "a"))
        reader = Reader(world, world.client("reader", "lone"), INTERESTS[0])
        other = Reader(world, world.client("other", "b"), INTERESTS[3])
        world.run_until(lambda: reader.is_flowing and other.is_flowing)
        for node in ("a", "b"):
            world.cut("lone", node, refuse=True)
        for _ in range(30):
            publisher.publish()
            world.run(seconds / 30)
        for node in ("a", "b"):
            world.heal("lone", node)
        publisher.publish()
        world.run(60.0)
        publisher.publish()
        read(world, reader, seconds=60.0)
        got = [name_of(event) for event in reader.events]
        assert got == sorted(set(got)) and len(got) == 32, f"{len(got)} of 32 (seed {seed})"
