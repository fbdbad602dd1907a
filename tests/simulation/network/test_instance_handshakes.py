"""Links of an instance of the default transport: handshakes, and bad peers."""

from __future__ import annotations

import pytest

from broker.cluster.handshake_messages import LINKS
from broker.cluster.traffic.messages import PageRequest
from broker.testing.simulated_network import NetworkWorld
from tests.simulation.network.bad_peer import BadPeer
from tests.simulation.network.test_flows import publish_both, settle
from tests.simulation.network.test_instance_links import STACKS, cut, peers_of
from tests.simulation.network.test_stack_instances import start

PURPOSE = f"{LINKS}radar mspaces 1 mspaces 1"


def test_a_link_must_be_as_safe_as_that_of_the_network() -> None:
    with NetworkWorld(1) as world:
        publisher, reader = start(world, STACKS, STACKS)
        for name, other in ("ab", "ba"):
            neighbour = world.network_of(name).neighbours.get(other)
            assert neighbour is not None
            neighbour.secure = True
        cut(world, "a", "b")
        world.run(10.0)
        assert not peers_of(world, "a") and not peers_of(world, "b")
        publish_both(world, publisher)
        settle(world, publisher, reader)


def test_links_of_an_instance_do_not_count_as_links_of_the_network() -> None:
    with NetworkWorld(1) as world:
        for name, joined in (("a", ()), ("b", "a")):
            world.add(name, "one", start=False, join=joined, max_tcp_links=1)
            world.set_stacks(name, STACKS)
            world.start(name)
        world.run(4.0)
        assert {*peers_of(world, "a")} == {"b"} and {*peers_of(world, "b")} == {"a"}
        assert [each.name for each in world.network_of("a").neighbours] == ["b"]


@pytest.mark.parametrize("cluster", ["one", "evil"])
def test_address_rules_hold_for_members(cluster: str) -> None:
    with NetworkWorld(1) as world:
        world.add("a", "one", start=False, allow=("10.0.0.0/8",))
        world.set_stacks("a", STACKS)
        world.start("a")
        peer = BadPeer(world, "a", cluster=cluster, purpose=PURPOSE)
        code = "address-not-allowed" if cluster == "one" else "not-connected"
        assert peer.refused is not None and peer.refused.error.code == code


def test_a_node_without_a_link_of_the_network_is_refused() -> None:
    with NetworkWorld(1) as world:
        start(world, STACKS, STACKS)
        for cluster in ("one", "evil"):
            peer = BadPeer(world, "a", cluster=cluster, purpose=PURPOSE)
            assert peer.refused is not None and peer.refused.error.code == "not-connected"
        assert {*peers_of(world, "a")} == {"b"}


def test_a_process_with_the_name_of_a_neighbour_is_refused() -> None:
    with NetworkWorld(1) as world:
        start(world, STACKS, STACKS)
        peer = BadPeer(world, "a", cluster="one", name="b", purpose=PURPOSE)
        assert peer.refused is not None and peer.refused.error.code == "not-connected"
        assert {*peers_of(world, "a")} == {"b"}


@pytest.mark.parametrize("data", ["message", "garbage"])
def test_a_link_carries_frames_only(data: str) -> None:
    with NetworkWorld(1) as world:
        publisher, reader = start(world, STACKS, STACKS)
        member = BadPeer(world, "a")
        peer = BadPeer(world, "a", purpose=PURPOSE)
        assert member.is_connected and peer.is_connected
        target = world.network_of("a").membership.node.address
        page = PageRequest(target, peer.address, 8, "f" * 16, (1, 0))
        peer.send(page if data == "message" else b"\x60garbage")
        world.run(1.0)
        assert member.is_connected and not peer.is_connected
        publish_both(world, publisher)
        settle(world, publisher, reader)
        assert {*peers_of(world, "a")} == {"b"}
