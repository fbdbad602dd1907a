"""A ClientId with durable subscriptions belongs to one account of one realm."""

from __future__ import annotations

import attrs
import pytest

from broker.config import Settings
from broker.config.identity import AccountSettings, IdentitySettings
from broker.config.stored_secret import StoredSecret
from broker.errors import NotAllowed, NotOwner
from broker.event.stream import StreamPattern
from broker.identity.secret import hash_secret
from broker.testing.flights import INTERESTS
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_reader import Reader
from tests.simulation.network.roaming import owner_key, refused

SECRETS = tuple(StoredSecret.parse(hash_secret(secret)) for secret in ("secret", "later"))


def account(name: str) -> AccountSettings:
    streams = (StreamPattern.parse(">"),)
    return AccountSettings(
        name, SECRETS, client_ids=("rover", name), subscribe=streams, administer=name == "admin"
    )


def settings(realm: str) -> Settings:
    return Settings(
        identity=IdentitySettings(realm=realm),
        accounts=tuple(map(account, ("alice", "bob", "admin"))),
    )


def two_realms(old: str, new: str) -> NetworkWorld:
    world = NetworkWorld(1)
    world.add("old", "one", settings=settings(old))
    world.add("new", "one", join=["old"], settings=settings(new))
    world.run(2.0)
    return world


def read_as(
    world: NetworkWorld, name: str, node: str, incarnation: int, secret: str = "secret"
) -> Reader:
    client = world.client("rover", node, incarnation=incarnation, account=name, secret=secret)
    reader = Reader(world, client, INTERESTS[1], durable="d")
    world.run(5.0)
    return reader


def is_kept(world: NetworkWorld) -> bool:
    durable = world["old"].durables.get("rover", "d")
    return durable is not None and not durable.moved_to


def test_another_account_gets_no_session_of_the_client() -> None:
    with two_realms("", "") as world:
        first = read_as(world, "alice", "old", 1)
        other = read_as(world, "bob", "old", 2)
        assert isinstance(other.error, NotOwner)
        assert first.error is None and first.is_flowing
        # Nor at another node.
        assert isinstance(read_as(world, "bob", "new", 3).error, NotOwner)
        bob = world.client("bob", "old", account="bob", secret="secret")
        with pytest.raises(NotAllowed):
            world.wait(bob.ask("durable-delete", client="rover", name="d"))
        assert world.wait(bob.ask("durable-list"))["subscriptions"] == []
        assert refused(world, "old") == 1 and is_kept(world)
        assert first.error is None and first.is_flowing


@pytest.mark.parametrize(
    ("old", "new", "moves"),
    [("x", "x", True), ("x", "y", False), ("x", "", False), ("", "y", True)],
)
def test_an_account_of_the_same_name_in_another_realm_is_a_stranger(
    old: str, new: str, moves: bool
) -> None:
    with two_realms(old, new) as world:
        read_as(world, "alice", "old", 1)
        second = read_as(world, "alice", "new", 2)
        assert second.is_flowing is moves is not is_kept(world)
        assert bool(list(world["old"].acceptor.sessions)) is not moves
        assert isinstance(second.error, NotOwner) is not moves


def test_a_realm_is_added_to_stored_owners() -> None:
    with two_realms("", "") as world:
        for incarnation, realm in enumerate(("", "x", "x"), 1):
            world.kill("old")
            process = world._processes["old"]
            identity = IdentitySettings(realm=realm)
            process.settings = attrs.evolve(process.settings, identity=identity)
            world.start("old")
            world.run(3.0)
            assert read_as(world, "alice", "old", incarnation).error is None
            assert world["old"].durables.owner_of("rover").realm == realm


def test_a_client_without_a_state_folder_changes_its_secret_at_its_node() -> None:
    """Its key follows from the secret."""
    with two_realms("", "") as world:
        keys = []
        for incarnation, secret in enumerate(("secret", "later"), 1):
            assert read_as(world, "alice", "old", incarnation, secret).error is None
            keys.append(owner_key(world, "old"))
        assert keys[0] != keys[1]
        moved = read_as(world, "alice", "new", 3, "secret")
        assert isinstance(moved.error, NotOwner)
        assert read_as(world, "alice", "new", 4, "later").is_flowing


def test_a_reset_client_has_no_owner() -> None:
    with two_realms("", "") as world:
        read_as(world, "alice", "old", 1)
        admin = world.client("admin", "old", account="admin", secret="secret")
        answer = world.wait(admin.ask("client-reset", client="rover"))
        assert answer["owner_deleted"] and answer["session_ended"]
        assert read_as(world, "bob", "old", 2).error is None
        assert world["old"].durables.owner_of("rover").account == "bob"
