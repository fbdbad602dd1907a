"""Subscriptions of a lagging node come and go, with and without queue policies, between faults."""

from __future__ import annotations

import random

import pytest

from broker.client.received import Gap
from broker.event.place import Mark
from broker.testing.flights import INTERESTS
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read_logs
from tests.seeds import seeds
from tests.simulation.network.test_lagging_nodes import (
    INTERVAL,
    KEYS,
    read,
    slow_settings,
    unthrottle,
)
from tests.simulation.network.test_queue_policies import BY_ALTITUDE

STREAMS = ("asdi.zbw.tz", "asdi.zny.x", "other")
POLICIES = ("drop-oldest", "drop-newest", "coalesce", BY_ALTITUDE)


class Schedule:
    """A random run, after which all present readers have each event or a gap for it."""

    def __init__(self, world: NetworkWorld, seed: int) -> None:
        self.world = world
        self.random = random.Random(seed)
        self.publisher = Publisher(world.client("publisher", "a"))
        self.policy = self.random.choice(POLICIES)
        self.present: list[Reader] = []
        self.gone: list[Reader] = []
        self.add_reader(self.policy)

    def add_reader(self, queue: str, durable: str = "") -> None:
        client = self.world.client(f"r{len(self.present) + len(self.gone)}", "b")
        interest = INTERESTS[0] if durable else self.random.choice(INTERESTS)
        self.present.append(Reader(self.world, client, interest, queue=queue, durable=durable))

    def step(self, number: int) -> None:
        event = self.random.random()
        if event < 0.15:
            self.add_reader(self.policy)
        elif event < 0.19:
            self.add_reader("", f"d{number}" if event < 0.17 else "")
        elif event < 0.42 and len(self.present) > 1:
            reader = self.present.pop(self.random.randrange(len(self.present)))
            self.world.wait(reader.client.close())
            self.gone.append(reader)
        elif event < 0.5:
            node = self.random.choice("ab")
            self.world.kill(node)
            self.world.run(self.random.uniform(0.1, 4.0))
            self.world.start(node)
        elif event < 0.58:
            self.world.cut("a", "b")
            self.world.run(self.random.uniform(1.0, 8.0))
            self.world.heal("a", "b")
        for index in range(self.random.choice([0, 100, 300, 500])):
            altitude = self.random.choice([7, 100, 1000, index % KEYS])
            self.publisher.publish(self.random.choice(STREAMS), altitude=altitude)
            self.world.run(INTERVAL)
            for each in self.present:
                each.read()

    def check(self) -> None:
        self.world.run_until(lambda: not self.publisher.client.unacknowledged)
        unthrottle(self.world, "a")
        read(self.world, *self.present, seconds=60.0)
        for _ in range(20):
            if not self.world["b"].output.has_lagging_subscription(""):
                break
            # A recovery waits for the restarted node.
            read(self.world, *self.present, seconds=30.0)
        logs = read_logs(self.world)
        for reader in self.present:
            reader.check(logs)
        for reader in (*self.present, *self.gone):
            check_places(reader)


def check_places(reader: Reader) -> None:
    """Places rise, and no gap has a delivered event."""
    newest: dict[str, Mark] = {}
    got = [event.place for event in reader.events]
    for item in reader.items:
        if isinstance(item, Gap):
            inside = [
                place
                for place in got
                if place.origin == item.first.origin
                and item.first.mark <= place.mark <= item.last.mark
            ]
            assert not inside, (item, inside[:5])
        else:
            assert newest.get(item.place.origin, (0, 0)) < item.place.mark, item.place
            newest[item.place.origin] = item.place.mark


@pytest.mark.parametrize("seed", seeds(1, 100))
def test_present_readers_get_each_event_or_a_gap(seed: int) -> None:
    with NetworkWorld(seed, settings=slow_settings()) as world:
        world.add("a", "one")
        if seed % 2:
            world.add("b", "one", join=["a"])
        else:
            world.add("b", "two", gateways=["a"])
        world.run(8.0)
        schedule = Schedule(world, seed)
        for number in range(12):
            schedule.step(number)
        schedule.check()
