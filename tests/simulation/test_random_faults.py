"""Random faults of a whole node with clients: cuts, kills, full disks."""

from __future__ import annotations

from random import Random

import attrs
import pytest

from broker.client.received import ALL, NEW, Start, since_time
from broker.config import Settings
from broker.errors import LogUnavailable
from broker.testing.flights import INTERESTS, STREAMS, LogEntry
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulation import World
from tests.seeds import seeds
from tests.simulation.simulated_client import Reader, check_publishers, read_log

SECONDS = 12.0
STEP = 0.05
SEEDS = seeds(7, 40)


def small_settings() -> Settings:
    settings = Settings()
    return attrs.evolve(
        settings,
        limits=attrs.evolve(settings.limits, window_bytes=16_384),
        queue=attrs.evolve(settings.queue, events=20),
    )


@attrs.frozen
class FaultRates:
    """Probabilities in a step of `STEP` seconds."""

    cut: float
    kill: float
    full: float
    client_death: float

    @classmethod
    def drawn(cls, random: Random) -> FaultRates:
        return cls(
            cut=random.choice((0.0, 0.03, 0.2)),
            kill=random.choice((0.0, 0.006, 0.03)),
            full=random.choice((0.0, 0.008, 0.04)),
            client_death=random.choice((0.0, 0.01)),
        )


class FaultyRun:
    def __init__(self, seed: int) -> None:
        random = self.random = Random(seed)
        self.rates = FaultRates.drawn(random)
        self.world = World(
            seed,
            settings=random.choice((Settings(), small_settings())),
            latency=random.choice((0.001, 0.2)),
            jitter=random.choice((0.0, 0.05)),
            thread_delay=random.choice((0.002, 0.3)),
        )
        self.publishers: list[Publisher] = []
        self.lost_publishers: list[Publisher] = []
        self.readers: list[Reader] = []
        self.processes: dict[str, list[Reader]] = {}
        """By client, in order; all but the last were killed."""
        for n in range(random.randint(1, 3)):
            self._add_publisher(f"publisher-{n}", 1)
        for n in range(random.randint(2, 5)):
            self._add_readers(n)

    def run(self) -> None:
        while self.world.clock.seconds() < SECONDS:
            self._step()
            self.world.run(STEP)
        self._heal()

    def running_readers(self) -> list[Reader]:
        return [*self.readers, *(processes[-1] for processes in self.processes.values())]

    # ------------------------------------------------------------------ clients

    def _add_publisher(self, client_id: str, incarnation: int) -> None:
        client = self.world.client(client_id, incarnation=incarnation)
        self.publishers.append(Publisher(client))

    def _add_readers(self, n: int) -> None:
        random, world = self.random, self.world
        slow = random.random() < 0.3
        window = 6_000 if slow else random.choice((6_000, 4 << 20))
        client = world.client(f"reader-{n}", window_bytes=window)
        for k in range(random.randint(1, 2)):
            durable = f"durable-{k}" if random.random() < 0.5 else ""
            interest = random.choice(INTERESTS)
            self.readers.append(Reader(world, client, interest, durable=durable, slow=slow))
        self._add_process(f"mortal-{n}", 1, random.choice((None, ALL, NEW)))

    def _add_process(self, client_id: str, incarnation: int, start: Start | None) -> None:
        client = self.world.client(client_id, incarnation=incarnation)
        processes = self.processes.setdefault(client_id, [])
        interest = processes[0].interest if processes else self.random.choice(INTERESTS)
        processes.append(Reader(self.world, client, interest, durable="life", start=start))

    # ------------------------------------------------------------------ faults

    def _step(self) -> None:
        random, world, rates = self.random, self.world, self.rates
        for publisher in self.publishers:
            if random.random() < 0.3:
                for _ in range(random.randint(1, 8)):
                    altitude = random.choice((7, 100, 600))
                    publisher.publish(random.choice(STREAMS), altitude, random.choice((0, 500)))
        for reader in self.running_readers():
            if not reader.slow:
                reader.read()
            elif random.random() < 0.05:
                reader.read_one()
        if random.random() < rates.cut:
            clients = [p.client for p in self.publishers] + [
                r.client for r in self.running_readers()
            ]
            world.cut_client(random.choice(clients).client_id)
        if world.is_running and random.random() < rates.kill:
            world.kill_node()
            world.clock.callLater(random.uniform(0.0, 2.0), self._start_node)
        if not world.disk.is_full and random.random() < rates.full:
            world.disk.is_full = True
            world.clock.callLater(random.uniform(0.0, 3.0), setattr, world.disk, "is_full", False)
        if random.random() < rates.client_death:
            self._kill_a_client()
        if random.random() < 0.01:
            self._add_late_reader()

    def _start_node(self) -> None:
        try:
            self.world.start_node()
        except LogUnavailable:
            # A supervisor would try again.
            self.world.clock.callLater(0.5, self._start_node)

    def _kill_a_client(self) -> None:
        if self.random.random() < 0.5:
            publisher = self.random.choice(self.publishers)
            self.publishers.remove(publisher)
            self.lost_publishers.append(publisher)
            client = publisher.client
            self.world.kill_client(client)
            self._add_publisher(client.client_id, client.incarnation + 1)
        else:
            client = self.random.choice(
                [processes[-1] for processes in self.processes.values()]
            ).client
            self.world.kill_client(client)
            self._add_process(client.client_id, client.incarnation + 1, None)

    def _add_late_reader(self) -> None:
        random, world = self.random, self.world
        start = random.choice((NEW, ALL, since_time(world.wall_clock() - random.randint(0, 9000))))
        client = random.choice(self.readers).client
        self.readers.append(Reader(world, client, random.choice(INTERESTS), start=start))

    def _heal(self) -> None:
        world = self.world
        world.run(4.0)
        world.disk.is_full = False
        world.run(1.0)
        world.run_until(lambda: not any(p.client.unacknowledged for p in self.publishers))
        quiet_since, before = world.clock.seconds(), 0
        while world.clock.seconds() < quiet_since + 5.0:
            world.run(2 * STEP)
            for reader in self.running_readers():
                reader.read()
            taken = sum(len(reader.items) for reader in self.running_readers())
            if taken != before:
                quiet_since, before = world.clock.seconds(), taken


@pytest.mark.parametrize("seed", SEEDS)
def test_random_faults_lose_and_duplicate_nothing(seed: int) -> None:
    faulty_run = FaultyRun(seed)
    with faulty_run.world as world:
        faulty_run.run()
        log = read_log(world)
        assert log, f"seed {seed}"
        check_publishers(log, faulty_run.publishers, faulty_run.lost_publishers, seed)
        for reader in faulty_run.readers:
            reader.check(log)
        for processes in faulty_run.processes.values():
            check_processes(log, processes)
        check_positions(world, log, faulty_run.running_readers())
        world.check_outcomes()
        clients = {p.client for p in faulty_run.publishers} | {
            r.client for r in faulty_run.running_readers()
        }
        for client in clients:
            world.wait(client.close())
        world.run(1.0)
        assert not list(world.node.acceptor.sessions), f"seed {seed}"
        assert world.pending_timers() == [], f"seed {seed}"
        world.check_outcomes()


def check_processes(log: list[LogEntry], processes: list[Reader]) -> None:
    """The processes together missed nothing.

    Each resumes at the last acknowledged position of the previous one, or earlier.
    """
    first = processes[0]
    where = f"{first.client.client_id}, seed {first.world.seed}"
    flowing = [reader for reader in processes if reader.subscription is not None]
    read = {event.place.mark for reader in flowing for event in reader.events}
    # A first process may have stored nothing; then the next one starts anew.
    began = next(reader for reader in flowing)
    missing = set(began.expected(log)) - read
    assert not missing, f"lost {sorted(missing)} ({where})"
    for reader in flowing:
        assert reader.error is None, f"{reader.error!r} ({where})"
        assert not reader.wrong_liveness, where
        marks = [event.place.mark for event in reader.events]
        assert marks == sorted(set(marks)), f"order or duplicates: {marks} ({where})"


def check_positions(world: World, log: list[LogEntry], readers: list[Reader]) -> None:
    for reader in readers:
        assert reader.subscription is not None
        where = f"{reader.client.client_id} {reader.interest.query}, seed {world.seed}"
        position = reader.subscription.position
        (mark,) = position.marks.values()
        assert mark >= log[-1].mark, f"a position stands still ({where})"
        if reader.durable:
            stored = world.node.durables.get(reader.client.client_id, reader.durable)
            assert stored is not None and stored.position == position, where
