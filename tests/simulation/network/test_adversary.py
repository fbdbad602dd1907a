"""A malicious member, on a path beside an honest one: the guarantees hold for all other nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from broker.client.received import Gap, ReceivedEvent, since
from broker.event.flow import origin_of
from broker.testing.determinism import deterministic
from broker.testing.guarantees import check, report
from broker.testing.observer import Observer
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read, read_logs
from tests.seeds import seeds
from tests.simulation.network.adversary import (
    Adversary,
    Attack,
    Drops,
    Replays,
    Silence,
    WrongSignatures,
)

ROUNDS = 40
#: Seconds, with the backoff of requests.
LONGEST_RECOVERY = 200.0


def add_two_clusters(world: NetworkWorld, verify: str) -> None:
    """Add clusters with two links between them."""
    world.add("a0", "left", verify=verify)
    world.add("a1", "left", join=["a0"], verify=verify)
    world.add("a2", "left", join=["a0"], verify=verify)
    world.add("b0", "right", gateways=["a0"], verify=verify)
    world.add("b1", "right", join=["b0"], gateways=["a1"], verify=verify)
    world.add("b2", "right", join=["b0"], verify=verify)
    world.run(6.0)


class AttackedNetwork:
    """Publishers and subscribers at honest nodes, and one adversary."""

    def __init__(
        self, world: NetworkWorld, name: str, attack: Attack, victims: Sequence[str]
    ) -> None:
        """`victims` are the nodes whose subscriptions must have the guarantees."""
        self.world = world
        self.victims = victims
        self._readers: dict[str, list[Reader]] = {}
        """Processes of each client that subscribes."""
        self._observer = Observer(world)
        self._publishers = [
            Publisher(self._observer.watch(world.client(f"p-{each}", each)))
            for each in ("a2", "b2")
        ]
        self._malicious = Publisher(world.client("p-malicious", name))
        for each in victims:
            self.subscribe(each, f"r-{each}")
        self._origin = world[name].event_log.origin
        self.adversary = Adversary(world, name, attack)

    @property
    def _last_readers(self) -> list[Reader]:
        return [processes[-1] for processes in self._readers.values()]

    def subscribe(self, node: str, client_id: str) -> Reader:
        """Start the next process of a client, at the position of the last one."""
        processes = self._readers.setdefault(client_id, [])
        client = self.world.client(client_id, node, incarnation=len(processes) + 1)
        last = processes[-1].subscription if processes else None
        start = None if last is None else since(last.position)
        reader = Reader(self.world, client, durable="d", start=start)
        processes.append(reader)
        self.world.run_until(lambda: reader.is_flowing)
        return reader

    def read(self, seconds: float) -> None:
        read(self.world, *self._last_readers, seconds=seconds)

    def publish(self, rounds: int = ROUNDS) -> None:
        world = self.world
        for _ in range(rounds):
            for publisher in (*self._publishers, self._malicious):
                publisher.publish()
            world.run(world.random.choice((0.0, 0.05, 0.3)))
        world.run_until(lambda: not any(each.client.unacknowledged for each in self._publishers))

    def check(self) -> None:
        """Check the guarantees for the events of all other nodes."""
        world, seen = self.world, self._observer.seen
        logs = read_logs(world)
        logs = {origin: log for origin, log in logs.items() if origin != self._origin}
        end = world.clock.seconds() + LONGEST_RECOVERY
        while world.clock.seconds() < end and not self._have_all():
            self.read(1.0)
        self._observer.record_logs(logs)
        for client_id, processes in self._readers.items():
            for each in processes:
                each.items = [item for item in each.items if self._is_honest(item)]
            self._observer.add_subscriber(client_id, processes)
        violations = check(seen)
        assert not violations, report(f"{world.seed}", seen, violations)
        assert self.adversary.attack.count, "the adversary has changed nothing"

    def _have_all(self) -> bool:
        count = sum(each.published for each in self._publishers)
        found = [
            {item.event_id for each in processes for item in each.events if self._is_honest(item)}
            for processes in self._readers.values()
        ]
        return all(len(each) >= count for each in found)

    def _is_honest(self, item: ReceivedEvent | Gap) -> bool:
        place = item.first if isinstance(item, Gap) else item.place
        return origin_of(place.origin) != self._origin

    def rejected_senders(self) -> set[str]:
        """Return the nodes that a victim names as senders of forged events."""
        signatures = [self.world.network_of(each).signatures for each in self.victims]
        return {sender for each in signatures for sender in each.rejected}

    def unanswered(self, name: str) -> Counter[str]:
        """Return the unanswered page requests of a node, by neighbour."""
        traffic = self.world.network_of(name).traffic
        assert traffic is not None
        return traffic.counts.unanswered


@contextmanager
def attacked_network(
    seed: int, name: str, attack: type[Attack], victims: Sequence[str], *, verify: str
) -> Iterator[AttackedNetwork]:
    with deterministic(seed), NetworkWorld(seed) as world:
        add_two_clusters(world, verify)
        yield AttackedNetwork(world, name, attack(world.random), victims)


ATTACKS = (WrongSignatures, Replays, Drops, Silence)
RIGHT = ("b0", "b1", "b2")


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("seed", seeds(1, 8))
def test_another_cluster_has_the_guarantees(attack: type[Attack], seed: int) -> None:
    """A gateway changes the events of other nodes of its cluster."""
    with attacked_network(seed, "a0", attack, RIGHT, verify="edge") as network:
        network.publish()
        network.check()
        senders = network.rejected_senders()
        # Its own cluster trusts it, and forwards what it has sent there.
        assert senders <= {"a0", "a1", "a2"}
        if attack is WrongSignatures:
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
