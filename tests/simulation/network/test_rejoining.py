from __future__ import annotations

import pytest

from broker.cluster.joining import JoiningState
from broker.testing.simulated_network import NetworkWorld
from tests.seeds import seeds
from tests.simulation.network.test_joining import members_by_unit


@pytest.mark.parametrize("seed", seeds(1, 6))
@pytest.mark.parametrize("away", [8.0, 20.0, 30.0])
def test_relinked_node_stops_joining(seed: int, away: float) -> None:
    with NetworkWorld(seed) as world:
        world.add("a", "c")
        for name in "bd":
            world.add(name, join=["a"])
        world.run(5.0)
        for other in "ad":
            world.cut("b", other, refuse=True)
        world.run(away)
        for other in "ad":
            world.heal("b", other)
        world.run(70.0)
        assert all(world.are_linked("b", other) for other in "ad")

        def handshakes() -> int:
            return sum(
                neighbour.reconnections
                for name in world.running
                for neighbour in world.network_of(name).neighbours
            )

        before = handshakes()
        world.run(60.0)
        joining = world.network_of("b").membership._joining
        assert (joining.state, handshakes() - before) == (JoiningState.MEMBER, 0)
        assert joining.next_timeout() is None


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_relinked_node_stays_in_its_cluster(seed: int) -> None:
    """The members refer to the next cluster."""
    with NetworkWorld(seed) as world:
        world.add("a", "c", max_tcp_links=3)
        world.add("e", "two", gateways=["a"])
        world.run(2.0)
        world.add("b", join=["a"], max_tcp_links=2)
        world.run(2.0)
        world.add("d", join=["a"], max_tcp_links=2)
        world.run(8.0)
        assert world.are_linked("a", "b") and world.are_linked("b", "d")
        for other in "ad":
            world.cut("b", other, refuse=True)
        world.run(20.0)
        for other in "ad":
            world.heal("b", other)
        world.run(100.0)
        state = world.network_of("b").state
        assert state is not None and state.address.unit == ("c",)
        assert all(world.are_linked("b", other) for other in "ad")


@pytest.mark.parametrize("seed", seeds(1, 8))
def test_node_that_had_to_leave_stays_linked_from_its_new_cluster(seed: int) -> None:
    with NetworkWorld(seed) as world:
        world.add("a", "c", max_nodes=3)
        world.add("b", "c", join=["a"], max_nodes=3)
        world.run(4.0)
        world.add("d", join=["a"], max_nodes=3)
        world.add("e", join=["b"], max_nodes=3)
        world.run(60.0)
        links = [each for name in world.running for each in world.network_of(name).neighbours]
        world.run(60.0)
        found = members_by_unit(world)
        assert sorted(map(len, found.values())) == [1, 3], found
        again = [each for name in world.running for each in world.network_of(name).neighbours]
        assert all(one is other for one, other in zip(links, again, strict=True))
        (alone,) = [name for members in found.values() if len(members) == 1 for name in members]
        assert any(world.are_linked(alone, other) for other in "abde" if other != alone)
