"""A whole node with clients through storms: cuts, kills, full disks; nothing lost or doubled."""

from __future__ import annotations

from random import Random

import attrs
import pytest

from broker.config import Settings
from broker.testing.simulation import World
from tests.simulation.watching import (
    INTERESTS,
    STREAMS,
    Publisher,
    Reader,
    check_publishers,
    truths,
)

SECONDS = 20.0
STEP = 0.05


def small_settings() -> Settings:
    """A node whose queues are small enough to be filled."""
    settings = Settings()
    return attrs.evolve(
        settings,
        limits=attrs.evolve(settings.limits, window_bytes=16_384),
        queue=attrs.evolve(settings.queue, events=20),
    )


class Storm:
    """What happens to a world, drawn from its seed."""

    def __init__(self, seed: int, *, settings: Settings) -> None:
        self.random = Random(seed)
        self.world = World(seed, settings=settings)
        self.publishers = [
            Publisher(self.world, self.world.client(f"publisher-{n}"))
            for n in range(self.random.randint(1, 3))
        ]
        self.readers: list[Reader] = []
        self._due: list[tuple[float, str]] = []

    def run(self) -> None:
        """Let it blow, then heal everything, and wait until all is quiet."""
        for n in range(self.random.randint(2, 5)):
            self._add_reader(n)
        while self.world.clock.seconds() < SECONDS:
            self._step()
            self.world.run(STEP)
        self._heal()

    def _add_reader(self, n: int) -> None:
        random = self.random
        slow = random.random() < 0.3
        window = 6_000 if slow else random.choice((6_000, 4 << 20))
        client = self.world.client(f"reader-{n}", window_bytes=window)
        for k in range(random.randint(1, 2)):
            durable = f"durable-{k}" if random.random() < 0.5 else ""
            interest = random.choice(INTERESTS)
            self.readers.append(Reader(self.world, client, interest, durable=durable, slow=slow))

    def _step(self) -> None:
        random, world = self.random, self.world
        for publisher in self.publishers:
            if random.random() < 0.3:
                for _ in range(random.randint(1, 8)):
                    publisher.publish(
                        random.choice(STREAMS),
                        random.choice((7, 100, 600)),
                        random.choice((0, 500)),
                    )
        for reader in self.readers:
            if not reader.slow:
                reader.read()
            elif random.random() < 0.05:
                reader.read_one()
        if random.random() < 0.03:
            everyone = [p.client for p in self.publishers] + [r.client for r in self.readers]
            world.cut(random.choice(everyone).client_id)
        if world.running and random.random() < 0.006:
            world.kill_node()
            world.clock.callLater(random.uniform(0.0, 2.0), world.start_node)
        if not world.disk.full and random.random() < 0.008:
            world.disk.full = True
            world.clock.callLater(random.uniform(0.0, 3.0), setattr, world.disk, "full", False)

    def _heal(self) -> None:
        world = self.world
        world.run(5.0)
        world.disk.full = False
        world.run_until(lambda: not any(p.client.unacknowledged for p in self.publishers))
        world.run_until(lambda: all(r.subscription or r.error for r in self.readers))
        quiet_since, before = world.clock.seconds(), 0
        while world.clock.seconds() < quiet_since + 4.0:
            world.run(0.05)
            for reader in self.readers:
                reader.read()
            taken = sum(len(reader.items) for reader in self.readers)
            if taken != before:
                quiet_since, before = world.clock.seconds(), taken


@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_lost_or_doubled_in_a_storm(seed: int) -> None:
    storm = Storm(seed, settings=small_settings())
    with storm.world as world:
        storm.run()
        log = truths(world)
        assert log, f"seed {seed}"
        check_publishers(log, storm.publishers, seed)
        for publisher in storm.publishers:
            assert len(publisher.results) == publisher.published, f"seed {seed}"
        for reader in storm.readers:
            reader.check(log)
        world.check_outcomes()
        world.run(5.0)
        for reader in storm.readers:
            reader.read()
        world.run(2.0)
        for reader in storm.readers:
            assert reader.subscription is not None
            (position,) = reader.subscription.position.marks.values()
            assert position >= log[-1].mark, f"a position stands still, seed {seed}"
            if reader.durable:
                stored = world.node.durables.get(reader.client.client_id, reader.durable)
                assert stored is not None
                assert stored.position == reader.subscription.position, f"seed {seed}"
        clients = {p.client for p in storm.publishers} | {r.client for r in storm.readers}
        for client in clients:
            world.wait(client.close())
        world.run(1.0)
        assert not list(world.node.reception.sessions), f"seed {seed}"
        assert world.left_over() == [], f"seed {seed}"
        world.check_outcomes()
