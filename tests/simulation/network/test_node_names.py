"""Names of nodes belong to keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from broker.cluster.address import Address
from broker.cluster.descriptor import NodeDescriptor
from broker.cluster.handshake_core import Accepted
from broker.cluster.map.entries import NODE, PROOF, SELF
from broker.cluster.map.name_bindings import prove_descriptor
from broker.cluster.neighbours import Neighbour
from broker.errors import ConfigurationError
from broker.event.origin import new_origin
from broker.node.status import build_status
from broker.order_certificates.signing_key import SigningKey
from broker.testing.simulated_network import NetworkWorld

KEY = SigningKey.generate()
OTHER = str(KEY.public)


@pytest.fixture
def world() -> Iterator[NetworkWorld]:
    with NetworkWorld(1) as world:
        world.add("a", "c")
        world.run(2.0)
        yield world


def members(world: NetworkWorld, name: str) -> set[str]:
    state = world.network_of(name).state
    assert state is not None
    return set(state.map.members())


def public_key(world: NetworkWorld, name: str) -> str:
    return str(build_status(world[name])["public_key"])


def test_members_have_keys_and_keep_them_after_a_restart(world: NetworkWorld) -> None:
    key = public_key(world, "a")
    world.add("b", "c", join=["a"], public_keys=(("a", key),))
    world.run(5.0)
    assert members(world, "b") == members(world, "a") == {"a", "b"}
    world.kill("a")
    world.start("a")
    world.run(10.0)
    assert public_key(world, "a") == key
    assert members(world, "b") == {"a", "b"} and not world.network_of("b").signatures.rejected


def test_a_name_has_several_keys_while_its_node_changes_its_key(world: NetworkWorld) -> None:
    keys = (("a", OTHER), ("a", public_key(world, "a")), ("b", OTHER))
    with pytest.raises(ConfigurationError, match="another key for b"):
        world.add("b", "c", join=["a"], public_keys=keys)
    world.add("d", "c", join=["a"], public_keys=keys)
    world.run(5.0)
    assert members(world, "d") == {"a", "d"}


def test_node_with_another_key_than_that_of_its_name_is_no_member(world: NetworkWorld) -> None:
    world.add("b", "c", join=["a"], public_keys=(("a", OTHER),))
    world.run(5.0)
    assert members(world, "b") == {"b"}
    assert set(world.network_of("b").signatures.rejected) == {"a"}
    status = build_status(world["b"])["network"]
    assert status is not None and status["forged"]["a"] > 0


def test_node_without_a_key_is_a_member_unless_its_name_has_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with NetworkWorld(1) as world, monkeypatch.context() as earlier:
        earlier.setattr("broker.node.log_opening.load_node_key", lambda _: None)
        world.add("old", "c")
        earlier.undo()
        world.add("b", "c", join=["old"])
        world.add("c", "c", join=["old"], public_keys=(("old", OTHER),))
        world.run(5.0)
        assert members(world, "b") == {"old", "b", "c"}
        assert members(world, "c") == {"b", "c"}


def test_node_does_not_start_with_another_key_under_its_own_name(world: NetworkWorld) -> None:
    with pytest.raises(ConfigurationError, match="another key for b"):
        world.add("b", "c", join=["a"], public_keys=(("b", OTHER),))


def test_certificate_of_a_link_binds_a_name_and_replaces_its_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make = Neighbour.from_handshake

    def make_certified(accepted: Accepted, *link: Any) -> Neighbour:
        neighbour = make(accepted, *link)
        neighbour.certified_name = accepted.peer.name
        return neighbour

    monkeypatch.setattr(Neighbour, "from_handshake", make_certified)
    with NetworkWorld(1) as world:
        for name in "abc":
            world.add(name, "c", join=["a"] if name != "a" else [])
        world.run(5.0)
        forged = NodeDescriptor(Address(("c",), "a"), new_origin(0, KEY.public.raw), 9, (5,))
        changes = {SELF: forged.to_plain(), PROOF: tuple(prove_descriptor(KEY, forged))}
        state = world.network_of("b").state
        assert state is not None
        state.map.apply_change((NODE, "a", "a"), ("c",), changes)
        assert "a" not in state.map.members()
        assert set(world.network_of("b").signatures.rejected) == {"a"}
        world.kill("a")
        world.lose_disk("a")
        world.start("a")
        world.run(40.0)
        assert members(world, "b") == {"a", "b", "c"}, "its own link brings the new key"


def test_a_name_keeps_its_first_key_until_the_operator_names_another(world: NetworkWorld) -> None:
    """Who takes the name of an absent node has another key."""
    world.add("b", "c", join=["a"], keep_keys=True)
    world.add("c", "c", join=["a"])
    world.run(5.0)
    assert members(world, "b") == {"a", "b", "c"}
    world.kill("a")
    world.lose_disk("a")
    world.start("a")
    world.run(30.0)
    assert members(world, "c") == {"a", "b", "c"}
    assert members(world, "b") == {"b", "c"}
    assert set(world.network_of("b").signatures.rejected) == {"a"}
    world.kill("b")
    world.start("b")
    world.run(30.0)
    assert members(world, "b") == {"b", "c"}, "it knows the first key after a restart"
    named = (("a", public_key(world, "a")),)
    for public_keys in (named, ()):
        world.kill("b")
        world.change_settings("b", public_keys=public_keys)
        world.start("b")
        world.run(30.0)
        assert members(world, "b") == {"a", "b", "c"}
        assert not world.network_of("b").signatures.rejected
