"""A malicious member, on a path beside an honest one: the guarantees hold for all other nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from broker.testing.determinism import deterministic
from broker.testing.simulated_network import NetworkWorld
from tests.seeds import seeds
from tests.simulation.network.adversary import (
    Adversary,
    Attack,
    Drops,
    Omissions,
    Replays,
    SecondEvents,
    Silence,
    WrongSignatures,
)
from tests.simulation.network.attacked_network import AttackedNetwork


def add_two_clusters(world: NetworkWorld, verify: str) -> None:
    """Add clusters with two links between them."""
    world.add("a0", "left", verify=verify)
    world.add("a1", "left", join=["a0"], verify=verify)
    world.add("a2", "left", join=["a0"], verify=verify)
    world.add("b0", "right", gateways=["a0"], verify=verify)
    world.add("b1", "right", join=["b0"], gateways=["a1"], verify=verify)
    world.add("b2", "right", join=["b0"], verify=verify)
    world.run(6.0)


@contextmanager
def attacked_network(
    seed: int, name: str, attack: type[Attack], victims: Sequence[str], *, verify: str
) -> Iterator[AttackedNetwork]:
    with deterministic(seed), NetworkWorld(seed) as world:
        add_two_clusters(world, verify)
        network = AttackedNetwork(world, name, attack(world.random), victims, ("a2", "b2"))
        Adversary(world, name, network.attack)
        yield network


ATTACKS = (WrongSignatures, Replays, Drops, Silence)
RIGHT = ("b0", "b1", "b2")


@pytest.mark.parametrize("attack", [*ATTACKS, Omissions])
@pytest.mark.parametrize("seed", seeds(1, 8))
def test_another_cluster_has_the_guarantees(attack: type[Attack], seed: int) -> None:
    """A gateway changes the events of other nodes of its cluster."""
    with attacked_network(seed, "a0", attack, RIGHT, verify="edge") as network:
        network.publish()
        network.check()
        senders = network.rejected_senders()
        # Its own cluster trusts it, and forwards what it has sent there.
        assert senders <= {"a0", "a1", "a2"}
        if attack in (WrongSignatures, Omissions):
            assert "a0" in senders
        if attack is Silence:
            assert network.unanswered("b0")["a0"] > 0


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("seed", seeds(1, 8))
def test_other_members_have_the_guarantees(attack: type[Attack], seed: int) -> None:
    """A gateway changes the events that enter its cluster, and those that leave it."""
    victims = ("b1", "b2", "a1", "a2")
    with attacked_network(seed, "b0", attack, victims, verify="always") as network:
        network.publish()
        network.check()
        assert network.rejected_senders() <= {"b0"}
        if attack is WrongSignatures:
            assert "b0" in network.rejected_senders()
        if attack is Silence:
            assert network.unanswered("b2")["b0"] > 0


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_an_origin_that_signs_two_events_for_a_place_is_named(seed: int) -> None:
    """The second ones go over the other gateway."""
    with attacked_network(seed, "a0", SecondEvents, RIGHT, verify="always") as network:
        network.publish()
        network.check()
        for name in RIGHT:
            signatures = network.world.network_of(name).signatures
            assert signatures.signed_twice.keys() == {network.malicious_origin}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("seed", seeds(1, 4))
def test_a_moved_subscription_recovers_beside_an_adversary(attack: type[Attack], seed: int) -> None:
    """It moves to another cluster, where no node has its earlier events."""
    with attacked_network(seed, "b0", attack, (), verify="always") as network:
        before = network.subscribe("a2", "rover")
        network.publish(5)
        network.read(1.0)
        network.world.kill_client(before.client)
        network.publish(20)
        network.subscribe("b2", "rover")
        network.publish(5)
        network.check()
