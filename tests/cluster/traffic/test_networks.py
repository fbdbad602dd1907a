from __future__ import annotations

import itertools
from itertools import pairwise

import pytest

from broker.testing.core_network import CoreNetwork
from tests.cluster.traffic.random_world import SHAPES, World
from tests.seeds import seeds

#: Seconds for all repeated requests.
QUIET = 150.0


@pytest.mark.parametrize("seed", seeds(2, 60))
def test_events_arrive_once_and_in_order_in_a_healthy_network(seed: int) -> None:
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
    # Pages match the interest of the reader's whole unit.
    if not any(node.traffic.counts.served for node in world.alive()):
        assert not any(world.unneeded_events(node) for node in world.alive())
    assert world.nodes.counts["dropped"] == 0


def calamity(world: World) -> None:
    """Cut a link, kill a node, or repair all."""
    what = world.random.random()
    nodes = world.nodes
    if what < 0.4 and nodes.links:
        nodes.cut_link(*world.random.choice(sorted(nodes.links)))
    elif what < 0.55:
        nodes.kill_node(world.random.choice(world.alive()).name)
    else:
        world.link_all()
    if len(world.alive()) < 2:
        world.link_all()


def troubled(seed: int, *, deaths: bool = False, capacity: int = 64) -> World:
    world = World(seed, capacity=capacity)
    world.nodes.late_entry_rate = 0.05
    world.link_all()
    world.nodes.run(3.0)
    nodes = world.nodes
    for _ in range(60):
        happening = world.random.random()
        node = world.random.choice(world.alive())
        if happening < 0.15:
            world.want(node)
        elif happening < 0.2 and node.interests:
            node.withdraw_interest(world.random.choice(sorted(node.interests)))
        elif happening < 0.35:
            calamity(world)
        else:
            world.publish(node)
        nodes.run(world.random.choice([0.0, 0.01, 0.05, 0.3, 1.0]))
    world.link_all()
    nodes.run(QUIET)
    return world


@pytest.mark.parametrize("seed", [*seeds(3, 60), 85, 226, 292])
def test_links_that_break_and_nodes_that_restart_lose_nothing(seed: int) -> None:
    troubled(seed).check()


# 84: a destination lost seven repeats of its missing range.
@pytest.mark.parametrize("seed", [*seeds(1, 20), 84, 135])
def test_links_that_drop_excess_frames_lose_nothing(seed: int) -> None:
    world = troubled(seed, capacity=1)
    world.check()


@pytest.mark.parametrize("seed", seeds(3, 20))
def test_commits_that_fail_lose_nothing(seed: int) -> None:
    world = World(seed)
    world.nodes.commit_failure_rate = 0.2
    world.link_all()
    for node in world.alive():
        world.want(node)
    world.nodes.run(5.0)
    for _ in range(40):
        world.publish(world.random.choice(world.alive()))
        world.nodes.run(world.random.choice([0.0, 0.01, 0.3]))
    world.nodes.commit_failure_rate = 0.0
    world.nodes.run(QUIET)
    world.check()


@pytest.mark.parametrize("seed", seeds(4, 30))
def test_no_event_is_lost_when_a_gateway_dies_for_good(seed: int) -> None:
    world = World(seed, shape=3 if seed % 2 else 5)
    world.link_all()
    for node in world.alive():
        world.want(node)
    world.nodes.run(5.0)
    gateways = sorted({a for a, b in world.pairs if a[0] != b[0]})
    doomed = world.random.choice(gateways)
    for turn in range(30):
        if turn == 15:
            world.dead.add(doomed)
            world.nodes.kill_node(doomed)
        world.publish(world.random.choice(world.alive()))
        world.nodes.run(world.random.choice([0.0, 0.01, 0.3]))
    # The gateway may have been the only route.
    for node in world.alive():
        cluster = node.state.address.unit
        for other in world.alive():
            if other.state.address.unit == cluster and other is not node:
                world.nodes.link_nodes(node.name, other.name)
    units = {node.state.address.unit: node.name for node in world.alive()}
    for pair in pairwise(units.values()):
        world.nodes.link_nodes(*pair)
    world.nodes.run(QUIET)
    world.check()


@pytest.mark.parametrize("seed", seeds(4, 30))
def test_an_event_crosses_each_needed_link_once_in_a_healthy_network(
    seed: int,
) -> None:
    world = World(seed)
    world.link_all()
    for node in world.alive():
        world.want(node)
    world.nodes.run(80.0)
    world.crossed.clear()
    for _ in range(20):
        world.publish(world.random.choice(world.alive()))
        world.nodes.run(world.random.choice([0.0, 0.01, 0.3]))
    world.nodes.run(QUIET)
    world.check()
    twice = [link for link, times in world.crossed.items() if times > 1]
    assert not twice, f"seed {seed}"
    assert not any(world.unneeded_events(node) for node in world.alive())


def test_nodes_without_interest_get_no_events() -> None:
    world = World(3, shape=2)
    world.link_all()
    for node in world.alive():
        world.want(node)
    world.nodes.run(10.0)
    for node in world.alive():
        for key in list(node.interests):
            node.withdraw_interest(key)
    world.nodes.run(10.0)
    world.crossed.clear()
    for node in world.alive():
        world.publish(node)
    world.nodes.run(10.0)
    assert not world.crossed


def test_an_idle_network_sends_few_messages() -> None:
    world = World(5, shape=5)
    world.link_all()
    for node in world.alive():
        world.want(node)
        world.publish(node)
    world.nodes.run(QUIET)
    world.nodes.counts.clear()
    world.nodes.run(100.0)
    counts = world.nodes.counts
    # Once a minute each node sends its position to all others.
    assert counts["frames"] <= 2 * len(world.alive()) * 2 * len(world.nodes.links)
    # Each author refreshes each scope every 10 s, over all links at most.
    scopes = sum(len(node.state.address.unit) + 1 for node in world.alive())
    assert counts["control"] <= 2 * 10 * scopes * len(world.nodes.links)
    assert all(node.traffic.receiver.incomplete_origins == 0 for node in world.alive())
    assert all(node.traffic.next_timeout() is None for node in world.alive())


@pytest.mark.parametrize("seed", seeds(4, 30))
def test_events_avoid_links_below_their_level_and_requests_end(
    seed: int,
) -> None:
    world = World(seed, shape=seed % len(SHAPES))
    for one, other in world.pairs:
        world.nodes.link_nodes(one, other, clearance=world.random.choice([0, 1, 2]))
    for node in world.alive():
        world.want(node)
    world.nodes.run(5.0)
    for _ in range(30):
        node = world.random.choice(world.alive())
        world.publish(node, level=world.random.randrange(3))
        world.nodes.run(world.random.choice([0.0, 0.01, 0.3]))
    world.nodes.run(QUIET)
    assert not world.leaked
    world.nodes.run(QUIET)
    asked = [node.traffic.receiver.counts.asked for node in world.alive()]
    world.nodes.run(100.0)
    assert asked == [node.traffic.receiver.counts.asked for node in world.alive()]
    for node in world.alive():
        world.check_log(node)
        for origin, (home, levels) in world.cleared(node).items():
            has = {each.mark for each in node.log.events if each.origin == origin}
            for want in node.interests.values():
                assert want.cuts is not None
                for each in home.log.own_events:
                    low, high = want.numbers
                    if each.level in levels and low <= each.number <= high:
                        assert each.mark in has or each.mark <= want.cuts.get(origin, each.mark)


def test_a_route_may_be_long() -> None:
    nodes = CoreNetwork(1)
    names = [f"n{number:03}" for number in range(61)]
    for name in names:
        nodes.add_node(name, ("a",))
    for one, other in itertools.pairwise(names):
        nodes.link_nodes(one, other)
    nodes.run(5.0)
    first, last = nodes.nodes[names[0]], nodes.nodes[names[-1]]
    last.announce_interest(1, (5, 5))
    nodes.run(5.0)
    first.publish([(5, 0)])
    nodes.run(3.0)
    assert [each.number for each in last.log.events] == [5]
