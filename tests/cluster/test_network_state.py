from __future__ import annotations

from collections.abc import Iterable

from broker.cluster.address import Address
from broker.cluster.descriptor import NodeDescriptor
from broker.cluster.interest.expiring_interest import INTEREST_EXPIRY
from broker.cluster.messages import Message
from broker.cluster.network_state import LEAD_DELAY, SYNC_TIMEOUT, NetworkState
from broker.cluster.tables.effects import Send
from broker.cluster.tables.table import TableKey
from broker.testing.core_network import CoreNetwork
from broker.testing.core_node import CoreNode

A, B = ("x", "a"), ("x", "b")


def chain() -> CoreNetwork:
    """Return a0 - a1 - b0 - c0 in the clusters x.a, x.b and y.c; c0 has interest in 7."""
    nodes = CoreNetwork(1)
    nodes.add_node("a0", A)
    nodes.add_node("a1", A)
    nodes.add_node("b0", B)
    nodes.add_node("c0", ("y", "c"))
    for one, other in (("a0", "a1"), ("a1", "b0"), ("b0", "c0")):
        nodes.link_nodes(one, other)
    nodes.nodes["c0"].announce_interest(1, (7, 7))
    nodes.run(10.0)
    return nodes


def wanted(node: CoreNode) -> int:
    return node.remote_interest_count


def test_destinations_are_near_nodes_and_far_units() -> None:
    nodes = chain()
    state = nodes.nodes["a0"].state
    near, far = Address(A, "a1"), [Address(B, ""), Address(("y",), "")]
    assert sorted(state.destinations()) == sorted([near, *far])
    assert sorted(state.destinations_inside(("x",))) == sorted(
        [state.address, near, Address(B, "")]
    )
    assert state.destinations_inside(A) == [state.address, near]


def test_every_address_is_in_one_destination() -> None:
    state = chain().nodes["a0"].state
    assert state.destination_of(Address(A, "a1")) == Address(A, "a1")
    assert state.destination_of(Address(B, "b0")) == Address(B, "")
    assert state.destination_of(Address(("y", "c"), "c0")) == Address(("y",), "")


def test_the_next_hop_to_a_node_and_its_unit_is_the_same() -> None:
    nodes = chain()
    assert nodes.nodes["a1"].state.next_hop(Address(("y", "c"), "c0"), 0) == "b0"
    assert nodes.nodes["a1"].state.next_hop(Address(("y",), ""), 0) == "b0"
    assert nodes.nodes["a1"].state.next_hop(Address(("z",), ""), 0) is None


def test_a_unit_without_known_interest_is_no_destination() -> None:
    nodes = CoreNetwork(2)
    for name, unit in (("a0", A), ("b0", B)):
        nodes.add_node(name, unit)
    nodes.link_nodes("a0", "b0")
    # A node that has just started does not lead its unit yet.
    nodes.run(LEAD_DELAY / 2)
    state = nodes.nodes["a0"].state
    assert state.next_hop(Address(B, ""), 0) == "b0"
    assert state.destinations() == []
    nodes.run(LEAD_DELAY)
    assert state.destinations() == [Address(B, "")]


def test_a_node_leads_after_a_delay() -> None:
    node = NodeDescriptor(Address(A, "n"), "0" * 16, 1, (1,))
    state = NetworkState(node, lambda: [("0" * 16, 1, 0)])
    state.publish_descriptor(node, 100.0)
    assert state.map.is_leader()
    assert not list(state.tables.items("summary"))
    state.handle_timeout(100.0 + LEAD_DELAY)
    state.handle_timeout(100.0 + LEAD_DELAY)
    assert {key.subject for key, _ in state.tables.items("summary")} == {"x.a", "x"}


def end(name: str) -> tuple[NetworkState, NodeDescriptor]:
    node = NodeDescriptor(Address(A, name), name[0] * 16, 1, (1,))
    state = NetworkState(node, lambda: [(node.origin, 1, 0)])
    state.publish_descriptor(node, 0.0)
    return state, node


def said(effects: Iterable[object]) -> list[Message]:
    return [each.message for each in effects if isinstance(each, Send)]


def links(state: NetworkState) -> set[str]:
    own = TableKey("node", state.address.node, state.address.node)
    return {key for key in state.tables.get(own) if key.startswith("link:")}


def test_a_link_is_published_after_all_tables_have_arrived() -> None:
    (here, own), (there, far) = end("a0"), end("b0")
    told = said(there.link_up(own, "tcp", 1, 2, 0.0))
    answers = said(here.link_up(far, "tcp", 1, 2, 0.0))
    for message in told:
        here.receive_message("b0", message, 0.1)
    assert links(here) == set(), "it has said what it has, and has not told it yet"
    news = [each for message in answers for each in said(there.receive_message("a0", message, 0.1))]
    for message in news:
        here.receive_message("b0", message, 0.2)
    assert links(here) == {"link:b0"}
    here.link_down("b0", 0.3)
    assert links(here) == set()


def test_a_link_is_published_after_a_timeout() -> None:
    (here, own), (there, far) = end("a0"), end("b0")
    here.link_up(far, "tcp", 1, 2, 0.0)
    for message in said(there.link_up(own, "tcp", 1, 2, 0.0)):
        here.receive_message("b0", message, 0.1)
    for now in (1.0, 1.0, SYNC_TIMEOUT - 0.1):
        here.handle_timeout(now)
    assert links(here) == set()
    assert here.next_timeout() == SYNC_TIMEOUT
    here.handle_timeout(SYNC_TIMEOUT)
    assert links(here) == {"link:b0"}


def test_a_link_that_breaks_early_is_not_published() -> None:
    (here, own), (there, far) = end("a0"), end("b0")
    here.link_up(far, "tcp", 1, 2, 0.0)
    for message in said(there.link_up(own, "tcp", 1, 2, 0.0)):
        here.receive_message("b0", message, 0.1)
    here.link_down("b0", 1.0)
    here.handle_timeout(SYNC_TIMEOUT)
    assert links(here) == set()


def test_interest_survives_the_restart_of_a_leader() -> None:
    nodes = chain()
    a0 = nodes.nodes["a0"]
    assert wanted(a0) == 1
    nodes.kill_node("c0")
    nodes.nodes["c0"].start()
    nodes.link_nodes("b0", "c0")
    for _ in range(100):
        nodes.run(0.05)
        assert wanted(a0) == 1


def test_interest_of_a_dead_author_expires() -> None:
    nodes = chain()
    nodes.kill_node("c0")
    nodes.run(35.0 + INTEREST_EXPIRY + 20.0)
    assert wanted(nodes.nodes["b0"]) == wanted(nodes.nodes["a0"]) == 0


def test_withdrawn_interest_ends_at_once() -> None:
    nodes = chain()
    nodes.nodes["c0"].withdraw_interest(1)
    nodes.run(1.0)
    assert wanted(nodes.nodes["a0"]) == 0
