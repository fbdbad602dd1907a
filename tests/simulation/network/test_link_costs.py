"""Link costs by level, from the settings to the route of events (G5)."""

from __future__ import annotations

from typing import Any

import pytest

from broker.cluster.address import Address, UnitPath
from broker.cluster.link_policy import LinkPolicy
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader
from tests.simulation.network.simulated_client import settle


def gateway_costs(world: NetworkWorld, name: str) -> dict[str, int]:
    state = world.network_of(name).state
    assert state is not None
    units: list[UnitPath] = [("s", "d"), ("t",)]
    return {str(link.far): link.cost for unit in units for link in state.map.gateways(unit)}


def test_each_level_has_a_cost_and_the_higher_end_counts() -> None:
    with NetworkWorld(1) as world:
        world.add("a", "s.c", link_costs=(2, 10, 100))
        world.add("b", "s.c", join=["a"], link_costs=(5,))
        world.add("d", "s.d", gateways=["a"], link_costs=(1, 7, 200))
        world.add("e", "t.e", gateways=["a"])
        world.run(5.0)
        assert gateway_costs(world, "b") == {"s.d/d": 10, "t.e/e": 100}
        state = world.network_of("a").state
        assert state is not None
        assert state.map.distance(Address(("s", "c"), "b")) == 5


@pytest.mark.parametrize(
    ("settings", "used"),
    [({}, "g1"), ({"link_costs": (1, 50)}, "g2"), ({"link_costs": (50, 1)}, "g2")],
    ids=["same", "dear-gateway", "dear-member"],
)
def test_events_leave_by_the_cheaper_gateway(settings: dict[str, Any], used: str) -> None:
    with NetworkWorld(1) as world:
        world.add("m", "c")
        world.add("g1", "c", join=["m"], **settings)
        world.add("g2", "c", join=["m"])
        world.add("f", "d", gateways=["g1", "g2"])
        world.run(10.0)
        publisher = Publisher(world.client("publisher", "m"))
        reader = Reader(world, world.client("reader", "f"))
        world.run_until(lambda: reader.is_flowing)
        before = {name: transit(world, name) for name in ("g1", "g2")}
        for _ in range(5):
            publisher.publish()
            world.run(0.2)
        world.run(0.5)
        passed = {name: transit(world, name) - before[name] for name in before}
        settle(world, [publisher], [reader])
        assert len(reader.events) == 5
        (other,) = passed.keys() - {used}
        # Progress marks take turns over the routes.
        assert passed[used] >= 5 > passed[other]


def transit(world: NetworkWorld, name: str) -> int:
    traffic = world.network_of(name).traffic
    assert traffic is not None
    return traffic.counts.transit


def test_last_cost_applies_to_all_further_levels() -> None:
    policy = LinkPolicy(2, 2, 2, 2, False, (1, 10))
    own = ("s", "c")
    assert [policy.cost_of(own, far) for far in (own, ("s", "d"), ("t", "e"))] == [1, 10, 10]
    # At different depths, the deeper end counts.
    assert policy.cost_of(("s", "c"), ("t",)) == 10
