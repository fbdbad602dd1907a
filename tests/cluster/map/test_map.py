from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import pytest

from broker.cluster.address import Address, UnitPath
from broker.cluster.map.unit_graph import MAX_GATEWAYS
from tests.cluster.map.simulated_network import Circle, Pair, SimulatedNetwork, random_network

SEEDS = range(25)
MOST_NODES = 60


def everybody(network: SimulatedNetwork) -> list[Address]:
    return [node.address for node in network.nodes.values()]


def everyone_finds_everyone(network: SimulatedNetwork, rank: int = 0) -> None:
    for source in network.nodes:
        for target in everybody(network):
            assert network.walk(source, target, rank), f"{source} does not find {target}"


@pytest.mark.parametrize("seed", SEEDS)
def test_every_node_reaches_every_other_without_a_loop(seed: int) -> None:
    everyone_finds_everyone(random_network(random.Random(seed), MOST_NODES))


def all_distances(network: SimulatedNetwork, names: list[str]) -> dict[tuple[str, str], int]:
    """Return the distances in one cluster by Floyd and Warshall."""
    far = 1 << 40
    distances = {(one, other): far for one in names for other in names}
    distances.update({(name, name): 0 for name in names})
    for pair, (cost, _clearance) in network.links.items():
        one, other = sorted(pair)
        if one in names and other in names:
            distances[one, other] = distances[other, one] = cost
    for middle, one, other in itertools.product(names, repeat=3):
        over = distances[one, middle] + distances[middle, other]
        distances[one, other] = min(distances[one, other], over)
    return distances


@pytest.mark.parametrize("seed", SEEDS)
def test_routes_inside_a_cluster_are_the_shortest(seed: int) -> None:
    network = random_network(random.Random(seed), 24)
    clusters = {node.address.unit for node in network.nodes.values()}
    for unit in clusters:
        names = [name for name, node in network.nodes.items() if node.address.unit == unit]
        for (one, other), distance in all_distances(network, names).items():
            target = Address(unit, other)
            assert network.nodes[one].map.distance(target) == distance
            way = network.walk(one, target)
            assert way is not None
            steps = itertools.pairwise(way)
            assert sum(network.links[Pair(step)][0] for step in steps) == distance


@pytest.mark.parametrize("seed", SEEDS)
def test_an_event_for_many_nodes_crosses_each_link_once(seed: int) -> None:
    rng = random.Random(seed)
    network = random_network(rng, MOST_NODES)
    for source in network.nodes:
        targets = rng.sample(everybody(network), rng.randint(1, len(network.nodes)))
        crossed: Counter[Pair] = Counter()
        reached: set[str] = set()
        at_nodes = [(source, targets)]
        while at_nodes:
            here, rest = at_nodes.pop()
            by_hop: dict[str, list[Address]] = {}
            for target in rest:
                if target.node == here:
                    reached.add(here)
                    continue
                hop = network.nodes[here].map.next_hop(target)
                assert hop is not None
                by_hop.setdefault(hop, []).append(target)
            crossed.update(Pair((here, hop)) for hop in by_hop)
            at_nodes.extend(by_hop.items())
        assert reached == {target.node for target in targets}
        assert not crossed or max(crossed.values()) == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_routes_heal_while_the_network_is_connected(seed: int) -> None:
    rng = random.Random(seed)
    network = random_network(rng, 30)
    for _blow in range(12):
        before = dict(network.links)
        if rng.random() < 0.5 and len(network.nodes) > 2:
            victim = rng.choice(sorted(network.nodes))
            survivors = {name: node for name, node in network.nodes.items() if name != victim}
            try_out = SimulatedNetwork()
            try_out.nodes = survivors
            try_out.links = {pair: link for pair, link in before.items() if victim not in pair}
            if try_out.holds_together():
                network.kill(victim)
        elif before:
            pair = rng.choice(sorted(before, key=sorted))
            one, other = pair
            network.cut(one, other)
            if not network.holds_together():
                network.link(one, other, *before[pair])
    everyone_finds_everyone(network)


@pytest.mark.parametrize("seed", SEEDS)
def test_each_hop_is_cleared_for_the_event(seed: int) -> None:
    network = random_network(random.Random(seed), 30, lowest=0)
    for rank in range(3):
        whole = network.holds_together(rank)
        for source in network.nodes:
            for target in everybody(network):
                try:
                    way = network.walk(source, target, rank)  # checks each hop's clearance
                except Circle:
                    # Outside nodes can not know that a unit is not connected inside.
                    way = None
                assert way or not whole


def two_gateways() -> SimulatedNetwork:
    network = SimulatedNetwork()
    for name in ("a1", "a2", "a3"):
        network.add(f"a/{name}")
    for name in ("b1", "b2"):
        network.add(f"b/{name}")
    for one, other in (("a1", "a2"), ("a2", "a3"), ("a1", "a3"), ("b1", "b2")):
        network.link(one, other)
    network.link("a1", "b1")
    network.link("a2", "b2")
    return network


def test_another_gateway_takes_over_when_one_dies() -> None:
    network = two_gateways()
    a3 = network.nodes["a3"].map
    assert a3.next_hop_to_unit(("b",)) == "a1"
    network.kill("a1")
    assert a3.next_hop_to_unit(("b",)) == "a2"
    assert [link.own.node for link in a3.gateways(("b",))] == ["a2"]
    network.kill("a2")
    assert a3.next_hop_to_unit(("b",)) is None
    assert a3.gateways(("b",)) == ()


def test_an_unreachable_gateway_does_not_count() -> None:
    network = two_gateways()
    for pair in (("a1", "a2"), ("a1", "a3")):
        network.cut(*pair)
    assert network.nodes["a3"].map.next_hop_to_unit(("b",)) == "a2"
    network.cut("a2", "a3")
    assert network.nodes["a3"].map.next_hop_to_unit(("b",)) is None
    assert network.nodes["a1"].map.next_hop_to_unit(("b",)) == "b1"


def test_the_nearest_gateway_is_taken() -> None:
    network = two_gateways()
    network.link("a1", "b1", cost=9)
    assert network.nodes["a3"].map.next_hop_to_unit(("b",)) == "a2"
    assert network.nodes["a1"].map.next_hop_to_unit(("b",)) == "a2"


def test_transit_avoids_a_draining_node() -> None:
    network = SimulatedNetwork()
    for name in ("n1", "n2", "n3", "n4"):
        network.add(f"c/{name}")
    for one, other in (("n1", "n2"), ("n2", "n4")):
        network.link(one, other)
    for one, other in (("n1", "n3"), ("n3", "n4")):
        network.link(one, other, cost=50)
    n1 = network.nodes["n1"].map
    assert n1.next_hop(Address(("c",), "n4")) == "n2"
    network.describe("n2", draining=True)
    assert n1.next_hop(Address(("c",), "n4")) == "n3"
    assert n1.next_hop(Address(("c",), "n2")) == "n2"


def test_another_gateway_replaces_a_draining_one() -> None:
    network = two_gateways()
    network.describe("a1", draining=True)
    assert network.nodes["a3"].map.next_hop_to_unit(("b",)) == "a2"


def test_a_route_avoids_nodes_below_the_event_level() -> None:
    network = SimulatedNetwork()
    for name in ("n1", "n2", "n3", "n4"):
        network.add(f"c/{name}", clearance=1 if name == "n2" else 2)
    for pair in (("n1", "n2"), ("n2", "n4"), ("n1", "n3"), ("n3", "n4")):
        network.link(*pair)
    n1 = network.nodes["n1"].map
    assert n1.next_hop(Address(("c",), "n4"), 1) == "n2"
    assert n1.next_hop(Address(("c",), "n4"), 2) == "n3"
    assert n1.next_hop(Address(("c",), "n2"), 2) is None
    assert n1.reachable(2) == {"n1", "n3", "n4"}


def test_an_edge_needs_the_entries_of_both_ends() -> None:
    network = SimulatedNetwork()
    n1, n2 = network.add("c/n1"), network.add("c/n2")
    (publication,) = n1.own.add_link(n2.descriptor, "tcp", 1, 2)
    assert n1.map.apply_change(
        (publication.kind, publication.subject, "n1"), publication.scope, publication.changes
    )
    assert n1.map.next_hop(n2.address) is None
    (publication,) = n2.own.add_link(n1.descriptor, "tcp", 3, 2)
    assert n1.map.apply_change(
        (publication.kind, publication.subject, "n2"), publication.scope, publication.changes
    )
    assert n1.map.next_hop(n2.address) == "n2"
    assert n1.map.distance(n2.address) == 3
    assert n1.map.apply_change(
        (publication.kind, publication.subject, "n2"), publication.scope, {}, is_removed=True
    )
    assert n1.map.next_hop(n2.address) is None


def test_members_and_leaders_of_a_cluster() -> None:
    network = two_gateways()
    a3 = network.nodes["a3"]
    assert sorted(a3.map.members()) == ["a1", "a2", "a3"]
    origin = network.nodes["a1"].descriptor.origin
    assert a3.map.node_of_origin(origin) == Address(("a",), "a1")
    assert a3.map.node_of_origin("b" * 16) is None
    assert network.nodes["a1"].map.is_leader()
    assert network.nodes["a1"].map.is_leader(1)
    assert network.nodes["b1"].map.leader(1) is None
    network.describe("a1", draining=True)
    assert a3.map.leader() == a3.map.leader(1) == "a2"
    network.kill("a2")
    assert a3.map.leader() == "a3"


@pytest.mark.parametrize("seed", SEEDS)
def test_every_node_lists_nodes_of_other_clusters(seed: int) -> None:
    network = random_network(random.Random(seed), 30)
    for node in network.nodes.values():
        others = node.map.other_cluster_nodes()
        assert len({other.address for other in others}) == len(others)
        assert all(other.address.unit != node.address.unit for other in others)
        clusters = {each.address.unit for each in network.nodes.values()}
        assert others or len(clusters) == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_the_other_units_cover_the_rest_of_the_network_once(seed: int) -> None:
    network = random_network(random.Random(seed), 30)
    everybody = {each.address for each in network.nodes.values()}
    for node in network.nodes.values():
        others_by_unit = node.map.gateways_by_unit()
        assert all(
            gateway.unit[: len(u)] == u for u, found in others_by_unit.items() for gateway in found
        )
        assert all(others_by_unit.values())
        inside = [a for a in everybody if a.unit == node.address.unit]
        inside += [a for unit in others_by_unit for a in everybody if a.unit[: len(unit)] == unit]
        assert sorted(inside) == sorted(everybody)


@pytest.mark.parametrize("seed", SEEDS)
def test_each_unit_has_one_leader(seed: int) -> None:
    network = random_network(random.Random(seed), 30)
    for node in network.nodes.values():
        for level in range(len(node.address.unit) + 1):
            unit = node.address.unit[: len(node.address.unit) - level]
            leaders = [
                other.address.node
                for other in network.nodes.values()
                if other.address.unit[: len(unit)] == unit and other.map.is_leader(level)
            ]
            assert len(leaders) == 1


def test_invalid_entries_are_rejected_and_counted() -> None:
    network = two_gateways()
    a3 = network.nodes["a3"].map
    good = network.nodes["a1"].descriptor.to_plain()
    unit_link = ("a", "b", "a/a1", "b/b1", 1, 2, ("b1", 4000))
    wrong: list[tuple[tuple[str, str, str], UnitPath, dict[str, Any]]] = [
        (("node", "a1", "a1"), ("a",), {"self": "nothing"}),
        (("node", "a1", "a1"), ("a",), {"self": (*good[:1], "other", *good[2:])}),
        (("node", "a2", "a2"), ("a",), {"self": good}),
        (("node", "a1", "a1"), ("a",), {"link:a2": (0, 2, "tcp")}),
        (("node", "a1", "a1"), ("a",), {"link:a2": (1, 3, "tcp")}),
        (("node", "a1", "a1"), ("a",), {"link:a 2": (1, 2, "tcp")}),
        (("node", "a1", "a1"), ("a",), {"neighbour": 1}),
        (("node", "a1", "a2"), ("a",), {"self": good}),
        (("node", "a1", "a1"), (), {"self": good}),
        (("unit-links", "", "a1"), ("a",), {"link:b1": unit_link}),
        (("unit-links", "a", "a1"), ("a",), {"link:b1": unit_link}),
        (("unit-links", "", "a2"), (), {"link:b1": unit_link}),
        (("unit-links", "", "a1"), (), {"link:b2": unit_link}),
        (("unit-links", "", "a1"), (), {"link:b1": (*unit_link[:6], ("b1", 0))}),
        (("unit-links", "", "a1"), (), {"link:b1": unit_link[:6]}),
        (("unit-links", "", "a1"), (), {"link:b1": ("c", *unit_link[1:])}),
        (("unit-links", "", "a1"), (), {"link:b1": ("a", "b", "a/a1", "/b1", 1, 2, None)}),
        (("unit-links", "", "a1"), (), {"link:b1": ("a", "b", "a/a1", "a.c/b1", 1, 2, None)}),
        (("unit-links", "", "a1"), (), {"link:b1": ("a", "b", 5, 6, 1, 2, None)}),
    ]
    for number, (key, scope, changes) in enumerate(wrong, 1):
        a3.apply_change(key, scope, changes)
        assert a3.snapshot().refused == number, (key, scope, changes)
    assert not a3.apply_change(("profile", "a1", "a1"), ("a",), {"x": 1})
    assert a3.snapshot().refused == len(wrong)


def test_nodes_over_the_limit_of_a_cluster_are_rejected() -> None:
    a3 = two_gateways().nodes["a3"].map
    for number in range(1100):
        name = f"x{number}"
        a3.apply_change(("node", name, name), ("a",), {f"link:{name}y": (1, 2, "tcp")})
    assert a3.snapshot().entries < 1100
    assert a3.snapshot().refused > 0


def test_gateways_over_the_limit_of_a_context_are_rejected() -> None:
    a3 = two_gateways().nodes["a3"].map
    many = MAX_GATEWAYS + 9
    for number in range(many):
        link = ("a", "b", f"a/x{number}", "b/b1", 1, 2, None)
        a3.apply_change(("unit-links", "", f"x{number}"), (), {"link:b1": link})
    refused = a3.snapshot().refused
    assert 9 <= refused < many
    changed = ("a", "b", "a/x0", "b/b1", 5, 2, None)
    a3.apply_change(("unit-links", "", "x0"), (), {"link:b1": changed})
    assert a3.snapshot().refused == refused
    assert a3.next_hop_to_unit(("b",)) == "a1"


def test_an_unknown_name_has_no_route_and_is_not_cached() -> None:
    a3 = two_gateways().nodes["a3"].map
    size = a3.snapshot().entries
    for number in range(100):
        assert a3.next_hop(Address(("a",), f"x{number}")) is None
        assert a3.next_hop_to_unit((f"x{number}", "y")) is None
    assert a3.snapshot().entries == size
    assert a3.next_hop_to_unit(("a",)) is None
    assert a3.next_hop_to_unit(()) is None
    assert a3.next_hop(a3.address) is None


def test_the_map_grows_with_the_contexts_and_not_with_the_network() -> None:
    network = SimulatedNetwork()
    for unit in ("a", "b", "c"):
        for number in range(10):
            network.add(f"{unit}/{unit}{number}")
            for other in range(number):
                network.link(f"{unit}{number}", f"{unit}{other}")
    network.link("a0", "b0")
    network.link("b9", "c0")
    figures = network.nodes["a5"].map.snapshot()
    assert (figures.nodes, figures.units) == (10, 2)
    # 10 descriptors, 90 link ends in the cluster, 4 link ends between units.
    assert figures.entries == 104


def test_removing_an_unknown_link_publishes_nothing() -> None:
    node = SimulatedNetwork().add("c/n1")
    assert node.own.remove_link("n2") == []
