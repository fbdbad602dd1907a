"""Publishers and subscribers at honest nodes of a network, and one adversary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from broker.client.received import Gap, ReceivedEvent, since
from broker.event.flow import origin_of
from broker.testing.guarantees import check, report
from broker.testing.observer import Observer
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read, read_logs
from tests.simulation.network.adversary import Attack

ROUNDS = 40
#: Seconds, with the backoff of requests.
LONGEST_RECOVERY = 200.0


class AttackedNetwork:
    """Publishers and subscribers at honest nodes, and one adversary."""

    def __init__(
        self,
        world: NetworkWorld,
        malicious: str,
        attack: Attack,
        victims: Sequence[str],
        publishing: Sequence[str],
        stream: str = "asdi.zbw.tz",
    ) -> None:
        """`victims` are the nodes whose subscriptions must have the guarantees."""
        self.world = world
        self.attack = attack
        self.victims = victims
        self._stream = stream
        self._readers: dict[str, list[Reader]] = {}
        """Processes of each client that subscribes."""
        self._observer = Observer(world)
        self._publishers = [
            Publisher(self._observer.watch(world.client(f"p-{each}", each))) for each in publishing
        ]
        self._malicious = Publisher(world.client("p-malicious", malicious))
        for each in victims:
            self.subscribe(each, f"r-{each}")
        self.malicious_origin = world[malicious].event_log.origin

    @property
    def readers(self) -> list[Reader]:
        """The last process of each client that subscribes."""
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
        read(self.world, *self.readers, seconds=seconds)

    def publish(self, rounds: int = ROUNDS) -> None:
        world = self.world
        for _ in range(rounds):
            for publisher in (*self._publishers, self._malicious):
                publisher.publish(self._stream)
            world.run(world.random.choice((0.0, 0.05, 0.3)))
        world.run_until(lambda: not any(each.client.unacknowledged for each in self._publishers))

    def check(self) -> None:
        """Check the guarantees for the events of all other nodes."""
        world, seen = self.world, self._observer.seen
        logs = read_logs(world)
        logs = {origin: log for origin, log in logs.items() if origin != self.malicious_origin}
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
        assert self.attack.count, "the adversary has changed nothing"

    def _have_all(self) -> bool:
        count = sum(each.published for each in self._publishers)
        found = [
            {item.event_id for each in processes for item in each.events if self._is_honest(item)}
            for processes in self._readers.values()
        ]
        return all(len(each) >= count for each in found)

    def _is_honest(self, item: ReceivedEvent | Gap) -> bool:
        place = item.first if isinstance(item, Gap) else item.place
        return origin_of(place.origin) != self.malicious_origin

    def rejected_senders(self) -> set[str]:
        """Return the nodes that a victim names as senders of forged events."""
        signatures = [self.world.network_of(each).signatures for each in self.victims]
        return {sender for each in signatures for sender in each.rejected}

    def unanswered(self, name: str) -> Counter[str]:
        """Return the unanswered page requests of a node, by neighbour."""
        traffic = self.world.network_of(name).traffic
        assert traffic is not None
        return traffic.counts.unanswered
