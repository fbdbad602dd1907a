"""Names of nodes belong to keys."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.errors import ConfigurationError
from broker.node.status import build_status
from broker.order_certificates.signing_key import SigningKey
from broker.testing.simulated_network import NetworkWorld

OTHER = str(SigningKey.generate().public)


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
