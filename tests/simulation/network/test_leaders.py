from __future__ import annotations

import pytest

from broker.testing.flights import INTERESTS
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader
from tests.seeds import further_cases
from tests.simulation.network.simulated_client import settle


@pytest.mark.parametrize(("alone", "suspect"), [(1.5, 5.0), *further_cases((1.1, 1.0), (2.0, 1.0))])
def test_restarted_leader_does_not_withdraw_its_units_interest(
    alone: float, suspect: float
) -> None:
    with NetworkWorld(3) as world:
        world.add("a", "one", join=["b"], suspect=suspect)
        world.add("b", "one", join=["a"], suspect=suspect)
        world.add("e", "two", gateways=["b"], suspect=suspect)
        world.run(5.0)
        publisher = Publisher(world.client("publisher", "e"))
        reader = Reader(world, world.client("reader", "b"))
        narrow = Reader(world, world.client("narrow", "a"), INTERESTS[1], durable="d")
        world.run_until(lambda: reader.is_flowing and narrow.is_flowing)
        world.run(2.0)
        world.delay("a", "b", 0.05)
        for other in "be":
            world.cut("a", other, refuse=True)
        world.kill("a")
        world.run(0.02)
        world.start("a")
        world.run(alone)
        for other in "be":
            world.heal("a", other)
        for _ in range(1500):
            publisher.publish("asdi.zny.tz", 7)
            world.run(0.002)
        settle(world, [publisher], [reader, narrow])
