from __future__ import annotations

from broker.cluster.descriptor import Endpoint
from broker.testing.simulated_network import NetworkWorld


def test_configured_member_rejoins_when_there_is_room() -> None:
    with NetworkWorld(1) as world:
        world.add("b", "c", max_nodes=2)
        world.add("d", "c", join=["b"], max_nodes=2)
        world.run(5.0)
        assert world.are_linked("b", "d")
        world.add("a", "c", join=["b"], max_nodes=2)
        world.run(20.0)
        world.kill("a")
        world.run(300.0)
        assert world.network_of("d").state is not None
        assert world.are_linked("b", "d")


def test_configured_members_meet_by_discovery() -> None:
    with NetworkWorld(1) as world:
        world.add("a", "c")
        world.add("b", "c")
        world.run(1.0)
        for _ in range(4):
            for name in "ab":
                world.network_of(name).membership.set_seeds([Endpoint("a", 1), Endpoint("b", 1)])
            world.run(30.0)
        assert world.are_linked("a", "b")
