from __future__ import annotations

from collections import Counter

import pytest

from broker.cluster.address import Address
from tests.cluster.simulated_organisation import OrganisedNode, World
from tests.seeds import seeds

MOST_NODES = 6


def alive(world: World) -> dict[str, OrganisedNode]:
    return {node.node.name: node for node in world.nodes.values() if node.alive}


def sizes(world: World) -> Counter[tuple[str, ...]]:
    return Counter(node.node.address.unit for node in alive(world).values())


def everyone_finds_everyone(world: World) -> None:
    nodes = alive(world)
    for source in nodes:
        for target in nodes.values():
            way = [source]
            while way[-1] != target.node.name:
                here = nodes[way[-1]]
                assert here.map, f"{here.node.name} is no member"
                hop = here.map.next_hop(target.node.address)
                assert hop in here.links, f"{way} to {target.node.address} goes on to {hop}"
                assert hop not in way
                way.append(hop)


def settled(seed: int, count: int) -> World:
    """All nodes know the first one; run until they are in clusters."""
    world = World(seed, MOST_NODES)
    world.add("n00").found(("x", "c1"))
    for number in range(1, count):
        node = world.add(f"n{number:02}", "n00")
        world.at(world.now + world.rng.uniform(0.0, 2.0), node.start)
    world.run(90.0)
    return world


@pytest.mark.parametrize("seed", seeds(1, 5))
def test_from_one_seed_to_linked_clusters(seed: int) -> None:
    world = settled(seed, 16)
    assert max(sizes(world).values()) <= MOST_NODES
    assert sum(sizes(world).values()) == 16
    assert all(unit[0] == "x" for unit in sizes(world))
    everyone_finds_everyone(world)
    for node in alive(world).values():
        # Every cluster is meshed, and each knows all its members.
        assert node.map
        members = {
            name
            for name, other in alive(world).items()
            if other.node.address.unit == node.node.address.unit
        }
        assert set(node.map.members()) == members
        assert members - set(node.links) == {node.node.name}


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_a_place_of_a_dead_member_is_reused(seed: int) -> None:
    world = settled(seed, MOST_NODES)
    assert sizes(world) == {("x", "c1"): MOST_NODES}
    nodes = alive(world)
    nodes["n03"].die()
    world.run(60.0)
    late = world.add("late", "n00")
    late.start()
    world.run(10.0)
    assert late.node.address == Address(("x", "c1"), "late")
    everyone_finds_everyone(world)


@pytest.mark.parametrize("seed", seeds(1, 3))
@pytest.mark.parametrize("seconds", [3.0, 20.0, 200.0])
def test_a_partitioned_cluster_reunites(seconds: float, seed: int) -> None:
    world = settled(seed, MOST_NODES)
    world.part("n01", "n03", "n05")
    world.run(seconds)
    world.part()
    world.run(90.0)
    assert sizes(world) == {("x", "c1"): MOST_NODES}
    everyone_finds_everyone(world)
    assert all(len(node.links) == MOST_NODES - 1 for node in alive(world).values())


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_a_node_rejoins_after_a_long_isolation(seed: int) -> None:
    world = settled(seed, MOST_NODES)
    world.part("n03")
    world.run(200.0)
    world.part()
    world.run(90.0)
    assert sizes(world) == {("x", "c1"): MOST_NODES}
    everyone_finds_everyone(world)


@pytest.mark.parametrize("seed", seeds(1, 5))
def test_surplus_members_leave(seed: int) -> None:
    world = World(seed, MOST_NODES)
    world.add("n00").found(("x", "c1"))
    for number in range(1, MOST_NODES - 1):
        world.add(f"n{number:02}", "n00").start()
        world.run(3.0)
    # One place is left; four nodes ask four members at once.
    late = [world.add(f"late{number}", f"n{number:02}") for number in range(4)]
    for node in late:
        node.start()
    world.run(90.0)
    assert sum(node.times_left for node in late) >= 1
    assert sizes(world)["x", "c1"] == MOST_NODES
    assert max(sizes(world).values()) <= MOST_NODES
    everyone_finds_everyone(world)
