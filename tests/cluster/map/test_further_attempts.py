from __future__ import annotations

from broker.cluster.address import Address
from broker.cluster.map.route_table import MOST_EXITS
from tests.cluster.map.simulated_network import SimulatedNetwork
from tests.cluster.map.test_map import two_gateways


def test_further_attempts_take_turns_over_the_gateways() -> None:
    network = two_gateways()
    a1, a3 = network.nodes["a1"].map, network.nodes["a3"].map
    assert [a3.next_hop_to_unit(("b",), 0, attempt) for attempt in range(4)] == ["a1", "a2"] * 2
    # A gateway itself.
    assert [a1.next_hop_to_unit(("b",), 0, attempt) for attempt in range(3)] == ["b1", "a2", "b1"]
    b2 = Address(("b",), "b2")
    assert [a1.next_hop(b2, 0, attempt) for attempt in range(2)] == ["b1", "a2"]
    network.link("a2", "b2", clearance=0)
    assert [a3.next_hop_to_unit(("b",), 1, attempt) for attempt in range(2)] == ["a1", "a1"]
    network.kill("a1")
    assert a3.next_hop_to_unit(("b",), 0, 7) == "a2"
    network.kill("a2")
    assert a3.next_hop_to_unit(("b",), 0, 7) is None


def test_further_attempts_take_turns_over_the_units_between() -> None:
    network = SimulatedNetwork()
    for name in "abcd":
        network.add(f"{name}/{name}1")
    for pair in (("a1", "b1"), ("b1", "d1"), ("a1", "c1"), ("c1", "d1")):
        network.link(*pair)
    a1 = network.nodes["a1"].map
    assert [a1.next_hop_to_unit(("d",), 0, attempt) for attempt in range(3)] == ["b1", "c1", "b1"]
    # There is no other way to the neighbour than over the unit behind it.
    assert [a1.next_hop_to_unit(("b",), 0, attempt) for attempt in range(3)] == ["b1", "c1", "b1"]


def test_further_attempts_take_turns_over_the_members() -> None:
    network = SimulatedNetwork()
    for name in ("n1", "n2", "n3", "n4", "n5"):
        network.add(f"c/{name}")
    for pair in (("n1", "n2"), ("n2", "n4"), ("n1", "n3"), ("n3", "n4"), ("n1", "n5")):
        network.link(*pair)
    network.link("n1", "n4", cost=9)
    n1, n4 = network.nodes["n1"].map, Address(("c",), "n4")
    # The nearest first; n5 has no other way than back.
    assert [n1.next_hop(n4, 0, attempt) for attempt in range(4)] == ["n2", "n3", "n4", "n2"]
    assert n1.next_hop(Address(("c",), "n2"), 0, 1) == "n2", "no node is between"
    assert n1.next_hop(Address(("c",), "n1"), 0, 1) is None
    assert n1.next_hop(Address(("c",), "n9"), 0, 1) is None


def test_the_nearest_neighbours_take_turns_until_the_map_changes() -> None:
    network = SimulatedNetwork()
    for name in ("n1", "t", *(f"m{number}" for number in range(6))):
        network.add(f"c/{name}")
    for number in range(6):
        network.link("n1", f"m{number}", cost=1 + number)
        network.link(f"m{number}", "t")
    n1, target = network.nodes["n1"].map, Address(("c",), "t")
    hops = [n1.next_hop(target, 0, attempt) for attempt in range(2 * MOST_EXITS)]
    assert hops == [f"m{number}" for number in range(MOST_EXITS)] * 2
    network.kill("m1")
    hops = [n1.next_hop(target, 0, attempt) for attempt in range(MOST_EXITS)]
    assert hops == ["m0", "m2", "m3", "m4"]
