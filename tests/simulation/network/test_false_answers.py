"""A malicious node answers requests in the name of others: no event is lost, no gap is early."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest
from twisted.internet.defer import Deferred

from broker.client.received import since
from broker.cluster.address import Address
from broker.cluster.handshake_messages import PROTOCOL_VERSIONS
from broker.recovery.remote_logs import REACHED
from broker.testing.determinism import deterministic
from broker.testing.flights import INTERESTS
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, name_of, read
from broker.wire.codec import pack
from tests.seeds import seeds
from tests.simulation.network.attacked_network import AttackedNetwork
from tests.simulation.network.routed_adversary import (
    EmptyPages,
    ErrorPages,
    FalseSearches,
    FalseSources,
    FalseSurveys,
    LatePages,
    OtherQueries,
    RoutedAttack,
    attack_routed,
)
from tests.simulation.network.test_adversary import add_two_clusters

#: Seconds until an origin counts as silent, and all nodes have been asked.
SILENCE = 90.0


@contextmanager
def two_clusters(
    seed: int, name: str, attack: type[RoutedAttack], *, is_signed: bool = False
) -> Iterator[AttackedNetwork]:
    with deterministic(seed), NetworkWorld(seed) as world:
        add_two_clusters(world, "always")
        made = attack(world.random)
        network = AttackedNetwork(world, name, made, (), ("a2", "b2"))
        attack_routed(world, name, made)
        yield network


@pytest.mark.parametrize("name", ["a0", "b0"])
@pytest.mark.parametrize("attack", [ErrorPages, EmptyPages, LatePages, OtherQueries])
@pytest.mark.parametrize("seed", seeds(1, 4))
def test_a_false_page_is_not_the_last_answer(
    seed: int, attack: type[RoutedAttack], name: str
) -> None:
    """A subscription moves to another cluster. Another gateway is honest."""
    with two_clusters(seed, name, attack) as network:
        before = network.subscribe("a2", "rover")
        network.publish(5)
        network.read(1.0)
        network.world.kill_client(before.client)
        network.publish(20)
        after = network.subscribe("b2", "rover")
        network.publish(5)
        network.check()
        assert not after.gaps
        assert network.unanswered("b2")["b0"] > 0, "it, or a node behind it"


@pytest.mark.parametrize("turns", [0, 1])
@pytest.mark.parametrize("seed", seeds(1, 4))
def test_a_gateway_can_not_hide_a_durable_subscription(seed: int, turns: int) -> None:
    """A client comes without its position. `turns` are searches before."""
    with two_clusters(seed, "a0", FalseSearches) as network:
        world = network.world
        before = network.subscribe("a2", "rover")
        network.publish(5)
        network.read(1.0)
        world.kill_client(before.client)
        network.publish(5)
        for each in range(turns):
            other = Reader(world, world.client(f"other-{each}", "b2"), durable="d")
            world.run_until(lambda other=other: other.is_flowing)  # type: ignore[misc]
        after = Reader(world, world.client("rover", "b2", incarnation=2), durable="d")
        world.run_until(lambda: after.is_flowing)
        read(world, after, seconds=5.0)
        found = {name_of(each) for each in after.events}
        assert {(f"p-{node}", 1, n) for node in ("a2", "b2") for n in range(6, 11)} <= found
        assert not after.gaps


class SilentOrigin:
    """`a2` is dead, and `a1` has logged all its events. `b2` misses one that `b1` did not need."""

    def __init__(self, seed: int, attack: RoutedAttack, name: str, turns: int) -> None:
        """`turns` are questions before, since gateways take turns."""
        self.world = world = NetworkWorld(seed)
        add_two_clusters(world, "always")
        self.publisher = Publisher(world.client("publisher", "a2"))
        readers = [
            Reader(world, world.client("all", "a1")),
            Reader(world, world.client("high", "b1"), INTERESTS[1]),
        ]
        self.reader = Reader(world, world.client("reader", "b2"))
        self.readers = [*readers, self.reader]
        world.run_until(lambda: all(each.is_flowing for each in self.readers))
        self.publish(100, 700)
        for each in ("b0", "b1"):
            world.cut(each, "b2", refuse=True)
        self.publish(700, 100, 700)
        read(world, *self.readers, seconds=1.0)
        world.kill("a2")
        questions = world["b2"].recovery.questions
        assert questions is not None
        for _ in range(turns):
            world.wait(Deferred.fromCoroutine(questions.ask_all_nodes(REACHED, pack([]))))
        attack_routed(world, name, attack)
        for each in ("b0", "b1"):
            world.heal(each, "b2")

    def publish(self, *altitudes: int) -> None:
        for altitude in altitudes:
            self.publisher.publish("asdi.zbw.tz", altitude)
        self.world.run_until(lambda: not self.publisher.client.unacknowledged)
        read(self.world, *self.readers, seconds=1.0)

    def found(self) -> list[int]:
        return [number for _, _, number in map(name_of, self.reader.events)]


def addresses(*names: str) -> list[Address]:
    units = {"a": "left", "b": "right"}
    return [Address((units[each[0]],), each) for each in names]


@pytest.mark.parametrize("attack", [FalseSurveys, FalseSources])
@pytest.mark.parametrize("name", ["a0", "b0"])
@pytest.mark.parametrize("turns", [0, 1])
@pytest.mark.parametrize("seed", seeds(1, 4))
def test_a_false_survey_does_not_end_the_wait_for_an_origin(
    seed: int, turns: int, name: str, attack: type[FalseSurveys] | type[FalseSources]
) -> None:
    """The node that has logged a later event answers for itself."""
    names = addresses("a0", "a1", "a2", "b0")
    with deterministic(seed):
        setting = SilentOrigin(seed, attack(Random(seed), names=names), name, turns)
        read(setting.world, *setting.readers, seconds=3 * SILENCE)
        assert setting.reader.gaps == []
        assert setting.found() == [1, 2, 3, 4, 5]
        setting.world.close()


@pytest.mark.parametrize("must_sign", [False, True])
@pytest.mark.parametrize("seed", seeds(1, 2))
def test_a_subscription_moves_from_a_cluster_of_an_earlier_version(
    seed: int, must_sign: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pages have no proof, and count last."""
    with deterministic(seed), NetworkWorld(seed) as world:
        with monkeypatch.context() as patch:
            earlier = PROTOCOL_VERSIONS[:-1]
            patch.setattr("broker.cluster.network_factory.PROTOCOL_VERSIONS", earlier)
            world.add("a", "left")
        world.add("b", "right", gateways=["a"], require_signatures=must_sign)
        world.run(4.0)
        publisher = Publisher(world.client("publisher", "a"))
        before = Reader(world, world.client("rover", "a", incarnation=1), INTERESTS[1], durable="d")
        world.run_until(lambda: before.is_flowing)
        publisher.publish(altitude=1000)
        read(world, before, seconds=2.0)
        world.kill_client(before.client)
        for altitude in (100, 1000, 100, 1000):
            publisher.publish(altitude=altitude)
        world.run_until(lambda: not publisher.client.unacknowledged)
        assert before.subscription is not None
        after = Reader(
            *(world, world.client("rover", "b", incarnation=2), INTERESTS[1]),
            durable="d",
            start=since(before.subscription.position),
        )
        read(world, after, seconds=SILENCE)
        assert [number for _, _, number in map(name_of, after.events)] == [3, 5]
        assert not after.gaps, "other events of the log show which ones do not match"
