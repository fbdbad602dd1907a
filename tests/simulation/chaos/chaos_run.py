"""Faults in a simulated network, then a check of all guarantees.

Everything follows from the seed and the options (`FaultOptions`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from unittest.mock import patch

from broker.client.client import Client
from broker.event.place import Place
from broker.testing.determinism import deterministic
from broker.testing.flights import INTERESTS, STREAMS
from broker.testing.guarantees import check, report
from broker.testing.observer import Observer
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import LogEntries, Reader, read_logs
from tests.simulation.chaos.fault_options import ArchiveFaults, FaultOptions
from tests.simulation.chaos.mesh_world import MeshWorld
from tests.simulation.network.topologies import SHAPES, Edge, RandomFaults

ALTITUDES = (7, 100, 250, 600, 1000)
HOUR_MS = 3_600_000
TURNS = 150
JOIN_TURN = 50
#: Seconds after the last fault, backoff included.
LONGEST_RECOVERY = 180.0


class Subscriber:
    def __init__(self, world: NetworkWorld, name: str, interest: int, durable: str) -> None:
        self.name = name
        self._world = world
        self._interest = INTERESTS[interest]
        self._durable = durable
        self._client: Client | None = None
        self.readers: list[Reader] = []
        self.start_process()

    @property
    def is_durable(self) -> bool:
        return bool(self._durable)

    def start_process(self) -> None:
        world = self._world
        first = world.random.choice(world.running)
        nodes = [first, *(name for name in world.names if name != first)]
        number = len(self.readers) + 1
        self._client = world.client(self.name, *nodes, incarnation=number)
        reader = Reader(world, self._client, self._interest, durable=self._durable)
        self.readers.append(reader)

    def kill_process(self) -> bool:
        """Return whether the subscription was active, so that the process was killed."""
        if self._client is None or not self.readers[-1].is_flowing:
            return False
        # The report of processed events takes a moment.
        for _ in range(10):
            self.read()
            self._world.run(0.1)
        self.read()
        self._world.kill_client(self._client)
        self._client = None
        return True

    def read(self) -> None:
        self.readers[-1].read()


class ChaosRun:
    def __init__(self, seed: int, dangers: FaultOptions) -> None:
        self._dangers = dangers
        make_world = MeshWorld if dangers.mesh else NetworkWorld
        self._world = make_world(seed, archived=dangers.archived, settings=dangers.settings)
        self._random = Random(f"chaos {seed}")
        self._observer = Observer(self._world, "neighbour" if dangers.guarded else "node")
        self._seen: LogEntries = {}
        self._disk_was_lost = False
        self._faults = self._archive_faults()
        self.log: list[str] = []
        """Faults with times."""
        self.carried = 0
        """Events that the mesh brought."""

    def run(self) -> None:
        with (
            deterministic(self._world.seed, busy=self._dangers.busy),
            patch("broker.archive.journal_writer.SNAPSHOT_EVERY", 8),
            self._world as world,
        ):
            edges = SHAPES[world.seed % len(SHAPES)](world, world.random.randint(3, 6))
            world.run(4.0)
            names = world.names
            publishers = [
                self._publisher(name) for name in self._random.sample(names, min(3, len(names)))
            ]
            subscribers = [
                Subscriber(world, f"f{number}", number, self._random.choice(("", "d")))
                for number in range(len(INTERESTS))
            ]
            world.run_until(lambda: all(each.readers[0].is_flowing for each in subscribers))
            trouble = RandomFaults(world, edges, [])
            for turn in range(TURNS):
                self._publish(publishers)
                if turn == JOIN_TURN and self._dangers.joining:
                    publishers.append(self._join(edges))
                if self._random.random() < 0.3:
                    self._inject_fault(trouble, subscribers)
                if self._faults is not None:
                    self._damage_archive(self._faults)
                for each in subscribers:
                    each.read()
                world.run(self._random.choice((0.0, 0.01, 0.1, 0.5)))
            trouble.repair_all()
            if self._faults is not None:
                self._faults.restore_delayed(at_once=True)
            for name in world.names:
                if name not in world.running:
                    world.start(name)
            self._settle(publishers, subscribers)
            self._check(subscribers)
            world.check_outcomes()
            if isinstance(world, MeshWorld):
                self.carried = world.carried

    def _check(self, subscribers: list[Subscriber]) -> None:
        observer, world = self._observer, self._world
        # No other node has all events of a node whose disk was lost.
        observer.record_logs(read_logs(world, self._seen), complete=not self._dangers.short)
        for subscriber in subscribers:
            observer.add_subscriber(subscriber.name, subscriber.readers)
        violations = check(observer.seen, self._dangers.allowances(self._archived()))
        assert not violations, report(str(world.seed), observer.seen, violations)

    def _archived(self) -> Callable[[Place], bool]:
        archive = self._world.archive
        covered = {} if archive is None else archive.open().state().covered
        return lambda place: any(
            after < place.mark <= upto for after, upto in covered.get(place.origin, ())
        )

    def _publisher(self, name: str) -> Publisher:
        client = self._world.client(f"p-{name}", *self._nodes_of_publisher(name))
        return Publisher(self._observer.watch(client))

    def _nodes_of_publisher(self, name: str) -> list[str]:
        others = [other for other in self._world.names if other != name]
        return [name, *others] if self._dangers.wandering else [name]

    def _join(self, edges: list[Edge]) -> Publisher:
        """The publisher publishes before the node has links."""
        world, name = self._world, "new"
        neighbour = self._random.choice(world.names)
        self._record(f"{name} joins {neighbour}")
        cluster = world.cluster_of(neighbour)
        edges.append((neighbour, name))
        if self._random.random() < 0.5:
            world.add(name, cluster, join=[neighbour])
        else:
            world.add(name, f"{cluster}-new", gateways=[neighbour])
        return self._publisher(name)

    def _publish(self, publishers: list[Publisher]) -> None:
        random = self._random
        for publisher in publishers:
            if random.random() < 0.5:
                size = random.randint(0, self._dangers.size)
                publisher.publish(random.choice(STREAMS), random.choice(ALTITUDES), size)

    def _settle(self, publishers: list[Publisher], subscribers: list[Subscriber]) -> None:
        world = self._world
        world.run_until(lambda: not any(each.client.unacknowledged for each in publishers))
        until = world.clock.seconds() + LONGEST_RECOVERY
        while world.clock.seconds() < until:
            for each in subscribers:
                each.read()
            world.run(0.5)

    def _archive_faults(self) -> ArchiveFaults | None:
        archive, world = self._world.archive, self._world
        if archive is None or not self._dangers.torn:
            return None
        random = Random(f"archive {world.seed}")
        return ArchiveFaults(Path(archive.uri), random, world.clock.seconds)

    # ------------------------------------------------------------------ faults

    def _damage_archive(self, faults: ArchiveFaults) -> None:
        faults.restore_delayed()
        fault = faults.random.randrange(12)
        if fault == 0:
            assert self._world.archive is not None
            if self._world.archive.kill_archiver(faults.random):
                self._record("kill an archiver")
        elif fault < 3 and (done := faults.inject_one()):
            self._record(done)
        elif fault == 3:
            assert self._world.archive is not None
            self._record(self._world.archive.maintenance.run(faults.random))

    def _inject_fault(self, trouble: RandomFaults, subscribers: list[Subscriber]) -> None:
        fault = self._random.randrange(10)
        if fault < 5:
            before = len(trouble.log)
            trouble.inject_one()
            self.log += trouble.log[before:]
        elif fault < 8:
            self._kill_or_start()
        elif fault == 8 and self._dangers.moving:
            subscriber = self._random.choice(subscribers)
            if subscriber.is_durable and subscriber.kill_process():
                self._world.run(self._random.choice((0.0, 1.0, 10.0)))
                self._record(f"{subscriber.name} comes back")
                subscriber.start_process()
        elif fault == 9 and self._dangers.clocks:
            name = self._random.choice(self._world.names)
            self._record(f"the clock of {name}")
            self._world.set_clock_offset(name, self._random.randrange(-3 * HOUR_MS, 3 * HOUR_MS))

    def _kill_or_start(self) -> None:
        world = self._world
        name = self._random.choice(world.names)
        if name not in world.running:
            self._record(f"start {name}")
            world.start(name)
        elif len(world.running) > 1:
            # The log may not be readable later.
            self._seen = read_logs(world, self._seen)
            self._record(f"kill {name}")
            world.kill(name)
            if self._dangers.disks and not self._disk_was_lost:
                self._disk_was_lost = True
                self._record(f"the disk of {name}")
                world.lose_disk(name)

    def _record(self, fault: str) -> None:
        self.log.append(f"{self._world.clock.seconds():.3f} {fault}")
