"""A whole node with clients through storms: cuts, kills, full disks; nothing lost or doubled."""

from __future__ import annotations

from random import Random

import attrs
import pytest

from broker.client.received import ALL, NEW, Start, since_time
from broker.config import Settings
from broker.errors import LogUnavailable
from broker.testing.simulation import World
from tests.seeds import seeds
from tests.simulation.watching import (
    INTERESTS,
    STREAMS,
    Publisher,
    Reader,
    Truth,
    check_publishers,
    truths,
)

SECONDS = 12.0
STEP = 0.05
SEEDS = seeds(7, 40)


def small_settings() -> Settings:
    """A node whose queues are small enough to be filled."""
    settings = Settings()
    return attrs.evolve(
        settings,
        limits=attrs.evolve(settings.limits, window_bytes=16_384),
        queue=attrs.evolve(settings.queue, events=20),
    )


@attrs.frozen
class Weather:
    """How often what happens in a step of `STEP` seconds."""

    cut: float
    kill: float
    full: float
    die: float

    @classmethod
    def drawn(cls, random: Random) -> Weather:
        """From calm to wild, and each kind of trouble now and then alone."""
        return cls(
            cut=random.choice((0.0, 0.03, 0.2)),
            kill=random.choice((0.0, 0.006, 0.03)),
            full=random.choice((0.0, 0.008, 0.04)),
            die=random.choice((0.0, 0.01)),
        )


class Storm:
    """What happens to a world, drawn from its seed."""

    def __init__(self, seed: int) -> None:
        random = self.random = Random(seed)
        self.weather = Weather.drawn(random)
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
        self.lives: dict[str, list[Reader]] = {}
        """Durable readers by client and name, one after another: each died but the last."""
        for n in range(random.randint(1, 3)):
            self._add_publisher(f"publisher-{n}", 1)
        for n in range(random.randint(2, 5)):
            self._add_readers(n)

    def run(self) -> None:
        """Let it blow, then heal everything, and wait until all is quiet."""
        while self.world.clock.seconds() < SECONDS:
            self._step()
            self.world.run(STEP)
        self._heal()

    def living(self) -> list[Reader]:
        """Readers whose process was not killed."""
        return [*self.readers, *(lives[-1] for lives in self.lives.values())]

    # ------------------------------------------------------------------ who takes part

    def _add_publisher(self, client_id: str, incarnation: int) -> None:
        client = self.world.client(client_id, incarnation=incarnation)
        self.publishers.append(Publisher(self.world, client))

    def _add_readers(self, n: int) -> None:
        random, world = self.random, self.world
        slow = random.random() < 0.3
        window = 6_000 if slow else random.choice((6_000, 4 << 20))
        client = world.client(f"reader-{n}", window_bytes=window)
        for k in range(random.randint(1, 2)):
            durable = f"durable-{k}" if random.random() < 0.5 else ""
            interest = random.choice(INTERESTS)
            self.readers.append(Reader(world, client, interest, durable=durable, slow=slow))
        self._add_life(f"mortal-{n}", 1, random.choice((None, ALL, NEW)))

    def _add_life(self, client_id: str, incarnation: int, start: Start | None) -> None:
        client = self.world.client(client_id, incarnation=incarnation)
        lives = self.lives.setdefault(client_id, [])
        interest = lives[0].interest if lives else self.random.choice(INTERESTS)
        lives.append(Reader(self.world, client, interest, durable="life", start=start))

    # ------------------------------------------------------------------ what happens

    def _step(self) -> None:
        random, world, weather = self.random, self.world, self.weather
        for publisher in self.publishers:
            if random.random() < 0.3:
                for _ in range(random.randint(1, 8)):
                    altitude = random.choice((7, 100, 600))
                    publisher.publish(random.choice(STREAMS), altitude, random.choice((0, 500)))
        for reader in self.living():
            if not reader.slow:
                reader.read()
            elif random.random() < 0.05:
                reader.read_one()
        if random.random() < weather.cut:
            everyone = [p.client for p in self.publishers] + [r.client for r in self.living()]
            world.cut_client(random.choice(everyone).client_id)
        if world.is_running and random.random() < weather.kill:
            world.kill_node()
            world.clock.callLater(random.uniform(0.0, 2.0), self._start_node)
        if not world.disk.is_full and random.random() < weather.full:
            world.disk.is_full = True
            world.clock.callLater(random.uniform(0.0, 3.0), setattr, world.disk, "is_full", False)
        if random.random() < weather.die:
            self._end_a_process()
        if random.random() < 0.01:
            self._add_late_reader()

    def _start_node(self) -> None:
        try:
            self.world.start_node()
        except LogUnavailable:
            # The disk is full: whoever looks after the node tries again.
            self.world.clock.callLater(0.5, self._start_node)

    def _end_a_process(self) -> None:
        if self.random.random() < 0.5:
            publisher = self.random.choice(self.publishers)
            self.publishers.remove(publisher)
            self.lost_publishers.append(publisher)
            client = publisher.client
            self.world.kill_client(client)
            self._add_publisher(client.client_id, client.incarnation + 1)
        else:
            client = self.random.choice([lives[-1] for lives in self.lives.values()]).client
            self.world.kill_client(client)
            self._add_life(client.client_id, client.incarnation + 1, None)

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
            for reader in self.living():
                reader.read()
            taken = sum(len(reader.items) for reader in self.living())
            if taken != before:
                quiet_since, before = world.clock.seconds(), taken


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_or_doubled_in_a_storm(seed: int) -> None:
    storm = Storm(seed)
    with storm.world as world:
        storm.run()
        log = truths(world)
        assert log, f"seed {seed}"
        check_publishers(log, storm.publishers, storm.lost_publishers, seed)
        for reader in storm.readers:
            reader.check(log)
        for lives in storm.lives.values():
            check_lives(log, lives)
        check_positions(world, log, storm.living())
        world.check_outcomes()
        clients = {p.client for p in storm.publishers} | {r.client for r in storm.living()}
        for client in clients:
            world.wait(client.close())
        world.run(1.0)
        assert not list(world.node.reception.sessions), f"seed {seed}"
        assert world.pending_timers() == [], f"seed {seed}"
        world.check_outcomes()


def check_lives(log: list[Truth], lives: list[Reader]) -> None:
    """What a durable subscription's processes have read, taken together, has no hole.

    Each begins where the one before was known to have got to, at the latest.
    """
    first = lives[0]
    where = f"{first.client.client_id}, seed {first.world.seed}"
    flowing = [reader for reader in lives if reader.subscription is not None]
    read = {event.place.mark for reader in flowing for event in reader.events}
    # A first process that died young may have left no trace: then the next one began anew.
    began = next(reader for reader in flowing)
    missing = set(began.wanted(log)) - read
    assert not missing, f"lost {sorted(missing)} ({where})"
    for reader in flowing:
        assert reader.error is None, f"{reader.error!r} ({where})"
        assert not reader.wrong_liveness, where
        marks = [event.place.mark for event in reader.events]
        assert marks == sorted(set(marks)), f"order or duplicates: {marks} ({where})"


def check_positions(world: World, log: list[Truth], readers: list[Reader]) -> None:
    """Positions move with the log, also where a query matches hardly anything."""
    for reader in readers:
        assert reader.subscription is not None
        where = f"{reader.client.client_id} {reader.interest.query}, seed {world.seed}"
        position = reader.subscription.position
        (mark,) = position.marks.values()
        assert mark >= log[-1].mark, f"a position stands still ({where})"
        if reader.durable:
            stored = world.node.durables.get(reader.client.client_id, reader.durable)
            assert stored is not None and stored.position == position, where
