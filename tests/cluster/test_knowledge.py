"""What a node knows of the network: whom it may send events, and what is wanted, for how long."""

from __future__ import annotations

from broker.cluster.address import Address
from broker.cluster.descriptor import NodeDescriptor
from broker.cluster.knowledge import LEAD_AFTER, LINGER, Knowledge
from broker.testing.nodes import SimulatedNodes
from broker.testing.simulated_node import SimulatedNode

A, B = ("x", "a"), ("x", "b")


def chain() -> SimulatedNodes:
    """a0 - a1 - b0 - c0, in the clusters x.a, x.b and y.c; c0 wants 7."""
    nodes = SimulatedNodes(1)
    nodes.add("a0", A)
    nodes.add("a1", A)
    nodes.add("b0", B)
    nodes.add("c0", ("y", "c"))
    for one, other in (("a0", "a1"), ("a1", "b0"), ("b0", "c0")):
        nodes.link(one, other)
    nodes.nodes["c0"].want(1, (7, 7))
    nodes.run(10.0)
    return nodes


def wanted(node: SimulatedNode) -> int:
    return node.remote_wants


def test_destinations_are_nodes_near_and_units_far() -> None:
    nodes = chain()
    knowledge = nodes.nodes["a0"].knowledge
    near, far = Address(A, "a1"), [Address(B, ""), Address(("y",), "")]
    assert sorted(knowledge.destinations()) == sorted([near, *far])
    assert sorted(knowledge.inside(("x",))) == sorted([knowledge.address, near, Address(B, "")])
    assert knowledge.inside(A) == [knowledge.address, near]


def test_every_address_is_in_one_destination() -> None:
    knowledge = chain().nodes["a0"].knowledge
    assert knowledge.towards(Address(A, "a1")) == Address(A, "a1")
    assert knowledge.towards(Address(B, "b0")) == Address(B, "")
    assert knowledge.towards(Address(("y", "c"), "c0")) == Address(("y",), "")


def test_the_way_to_a_node_and_to_its_unit_begins_alike() -> None:
    nodes = chain()
    assert nodes.nodes["a1"].knowledge.next_hop(Address(("y", "c"), "c0"), 0) == "b0"
    assert nodes.nodes["a1"].knowledge.next_hop(Address(("y",), ""), 0) == "b0"
    assert nodes.nodes["a1"].knowledge.next_hop(Address(("z",), ""), 0) is None


def test_a_unit_of_which_it_is_not_known_what_it_wants_is_no_destination() -> None:
    nodes = SimulatedNodes(2)
    for name, unit in (("a0", A), ("b0", B)):
        nodes.add(name, unit)
    nodes.link("a0", "b0")
    # Who has just begun does not speak for its unit yet.
    nodes.run(LEAD_AFTER / 2)
    knowledge = nodes.nodes["a0"].knowledge
    assert knowledge.next_hop(Address(B, ""), 0) == "b0"
    assert knowledge.destinations() == []
    nodes.run(LEAD_AFTER)
    assert knowledge.destinations() == [Address(B, "")]


def test_a_node_leads_after_a_moment() -> None:
    node = NodeDescriptor(Address(A, "n"), "0" * 16, 1, (1,))
    knowledge = Knowledge(node, lambda: ("0" * 16, 1, 0))
    knowledge.describe(node, 100.0)
    assert knowledge.map.leads()
    assert not list(knowledge.tables.items("summary"))
    knowledge.handle_timeout(100.0 + LEAD_AFTER)
    knowledge.handle_timeout(100.0 + LEAD_AFTER)
    assert {key.subject for key, _ in knowledge.tables.items("summary")} == {"x.a", "x"}


def test_wants_of_a_leader_that_restarts_are_not_forgotten_meanwhile() -> None:
    nodes = chain()
    a0 = nodes.nodes["a0"]
    assert wanted(a0) == 1
    nodes.kill("c0")
    nodes.nodes["c0"].start()
    nodes.link("b0", "c0")
    for _ in range(100):
        nodes.run(0.05)
        assert wanted(a0) == 1


def test_wants_of_who_is_gone_are_forgotten_in_the_end() -> None:
    nodes = chain()
    nodes.kill("c0")
    nodes.run(35.0 + LINGER + 20.0)
    assert wanted(nodes.nodes["b0"]) == wanted(nodes.nodes["a0"]) == 0


def test_what_is_not_wanted_any_more_is_forgotten_at_once() -> None:
    nodes = chain()
    nodes.nodes["c0"].unwant(1)
    nodes.run(1.0)
    assert wanted(nodes.nodes["a0"]) == 0
