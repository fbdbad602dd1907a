"""The splice of recovered and live events under faults and moves (N14, X8).

Each matching event arrives once, in its origin's order. A publisher's own order may break if it
moves while a dead node has its last events.
"""

from __future__ import annotations

import pytest

from broker.client.client import Client
from broker.testing.flights import INTERESTS, STREAMS
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, name_of, read, read_logs
from tests.seeds import seeds

NODES = ("a", "b", "c")
HOUR = 3_600_000


class MovingSubscription:
    def __init__(self, world: NetworkWorld, name: str, interest: int) -> None:
        self.world = world
        self.name = name
        self.interest = interest
        self.processes: list[Reader] = []
        self.client: Client | None = None
        self.start_process()

    def start_process(self) -> None:
        world = self.world
        node = world.random.choice(world.running)
        self.client = world.client(self.name, node, incarnation=len(self.processes) + 1)
        reader = Reader(world, self.client, INTERESTS[self.interest], durable="d")
        self.processes.append(reader)

    def move(self) -> None:
        """Everything that the process got is acknowledged."""
        reader = self.processes[-1]
        if not reader.is_flowing:
            return
        read(self.world, reader, seconds=1.0)
        assert self.client is not None
        self.world.kill_client(self.client)
        self.start_process()


@pytest.mark.parametrize("seed", seeds(4, 12))
def test_each_event_arrives_once_while_everything_moves(seed: int) -> None:
    with NetworkWorld(seed, archived=seed % 2 == 0) as world:
        random = world.random
        for name in NODES:
            world.add(name, "c", join=["a"] if name != "a" else ())
        world.run(4.0)
        publishers = [
            Publisher(world.client(f"p{n}", *random.sample(NODES, 2), longest_wait=0.2))
            for n in range(3)
        ]
        subscriptions = [MovingSubscription(world, f"m{n}", n % 3) for n in range(3)]
        world.run_until(lambda: all(each.processes[0].is_flowing for each in subscriptions))
        for _ in range(25):
            for publisher in publishers:
                publisher.publish(random.choice(STREAMS), random.choice((7, 100, 1000)))
            fault = random.randrange(6)
            if fault == 0:
                world.set_clock_offset(random.choice(NODES), random.randrange(-3 * HOUR, 3 * HOUR))
            elif fault == 1:
                random.choice(subscriptions).move()
            elif fault == 2:
                # The publisher may send events again.
                world.cut_client(random.choice(publishers).client.client_id)
            elif fault == 3:
                name = random.choice(world.running)
                world.kill(name)
                world.run(random.choice((0.0, 0.3, 3.0)))
                world.start(name)
            for each in subscriptions:
                each.processes[-1].read()
            world.run(random.choice((0.0, 0.02, 0.3)))
        world.run_until(lambda: not any(each.client.unacknowledged for each in publishers))
        for _ in range(90):
            world.run(1.0)
            for each in subscriptions:
                each.processes[-1].read()
        logs = read_logs(world)
        for each in subscriptions:
            got = [name_of(event) for reader in each.processes for event in reader.events]
            where = f"{each.name}, seed {seed}"
            assert [r.error for r in each.processes] == [None] * len(each.processes), where
            expected = set(each.processes[0].expected(logs))
            assert set(got) >= expected, f"{sorted(expected - set(got))} are missing ({where})"
            for reader in each.processes:
                names = [name_of(event) for event in reader.events]
                assert len(names) == len(set(names)), f"twice ({where})"
                marks: dict[str, tuple[int, int]] = {}
                for event in reader.events:
                    place = event.place
                    assert marks.get(place.origin, (0, 0)) < place.mark, f"{place} ({where})"
                    marks[place.origin] = place.mark
