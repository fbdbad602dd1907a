"""Whole networks of nodes in virtual time: whatever happens, what is wanted comes once and in order."""

from __future__ import annotations

import pytest

from tests.cluster.flows.worlds import SHAPES, World

#: Long enough for every repetition of what was lost.
QUIET = 150.0


@pytest.mark.parametrize("seed", range(60))
def test_what_is_wanted_comes_once_and_in_order_in_a_network_that_works(seed: int) -> None:
    world = World(seed)
    world.link_all()
    world.nodes.run(3.0)
    for _ in range(30):
        node = world.random.choice(world.alive())
        if world.random.random() < 0.3:
            world.want(node)
        else:
            world.publish(node)
        world.nodes.run(world.random.choice([0.0, 0.01, 0.1, 1.0]))
    world.nodes.run(QUIET)
    world.check()
    # Pages are chosen by what the reader's whole unit wants.
    if not any(node.traffic.counts.served for node in world.alive()):
        assert not any(world.strangers(node) for node in world.alive())
    assert world.nodes.counts["dropped"] == 0


def calamity(world: World) -> None:
    """Something goes wrong, or right again."""
    what = world.random.random()
    nodes = world.nodes
    if what < 0.4 and nodes.links:
        nodes.cut(*world.random.choice(sorted(nodes.links)))
    elif what < 0.55:
        nodes.kill(world.random.choice(world.alive()).name)
    else:
        world.link_all()
    if len(world.alive()) < 2:
        world.link_all()


def troubled(seed: int, *, deaths: bool = False, **settings: object) -> World:
    world = World(seed, **settings)
    world.link_all()
    world.nodes.run(3.0)
    nodes = world.nodes
    for _ in range(60):
        happening = world.random.random()
        node = world.random.choice(world.alive())
        if happening < 0.15:
            world.want(node)
        elif happening < 0.2 and node.wants:
            node.unwant(world.random.choice(sorted(node.wants)))
        elif happening < 0.35:
            calamity(world)
        else:
            world.publish(node)
        nodes.run(world.random.choice([0.0, 0.01, 0.05, 0.3, 1.0]))
    world.link_all()
    nodes.run(QUIET)
    return world


@pytest.mark.parametrize("seed", range(150))
def test_links_that_break_and_nodes_that_restart_lose_nothing(seed: int) -> None:
    troubled(seed).check()
