from __future__ import annotations

import pytest

from broker.testing.simulated_network import NetworkWorld
from tests.seeds import seeds


def reconnections(world: NetworkWorld) -> list[int]:
    return [
        neighbour.reconnections
        for name in world.names
        for neighbour in world.network_of(name).neighbours
    ]


@pytest.mark.parametrize("seed", seeds(1, 12))
def test_configured_members_meet_by_their_seeds(seed: int) -> None:
    with NetworkWorld(seed) as world:
        world.add("a", "c")
        world.add("b", "c", join=["a"])
        world.add("c", "c", join=["a"])
        world.run(3.0)
        assert (
            world.are_linked("a", "b") and world.are_linked("a", "c") and world.are_linked("b", "c")
        )
        connections = reconnections(world)
        assert max(connections) <= 1
        world.run(60.0)
        assert reconnections(world) == connections


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_restarted_seed_is_found_by_the_others(seed: int) -> None:
    with NetworkWorld(seed) as world:
        world.add("a", "c")
        for name in "bc":
            world.add(name, join=["a"])
        world.run(5.0)
        world.kill("a")
        world.run(world.random.uniform(0.1, 60.0))
        world.start("a")
        world.run(35.0)
        assert world.are_linked("a", "b") and world.are_linked("a", "c")


@pytest.mark.parametrize("moment", range(20))
def test_connection_broken_during_the_handshake_is_made_again(moment: int) -> None:
    with NetworkWorld(moment, latency=0.01, jitter=0.0) as world:
        world.add("a", "one")
        world.add("b", "two", gateways=["a"])
        world.run(0.005 * moment)
        world.cut("a", "b")
        world.run(10.0)
        assert world.are_linked("a", "b")


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_gateways_dial_more_targets_than_at_once(seed: int) -> None:
    # Each target dials, too.
    names = [f"g{n}" for n in range(6)]
    with NetworkWorld(seed) as world:
        for name in names:
            world.add(name, name, gateways=[other for other in names if other != name])
        world.run(10.0)
        missing = [
            (one, other)
            for one in names
            for other in names
            if one < other
            if not world.are_linked(one, other)
        ]
        assert missing == []


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_members_meet_again_after_a_long_partition_without_their_seed(seed: int) -> None:
    with NetworkWorld(seed) as world:
        world.add("a", "c")
        for name in ("b", "d"):
            world.add(name, "c", join=["a"])
        world.run(5.0)
        assert world.are_linked("b", "d")
        world.kill("a")
        world.cut("b", "d", refuse=True)
        world.run(120.0)
        world.heal("b", "d")
        world.run(60.0)
        assert world.are_linked("b", "d")
