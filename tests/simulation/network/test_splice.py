"""The splice of recovered and live events under faults and moves (N14, X8).

Each matching event arrives once, in its origin's order. A publisher's own order may break if it
moves while a dead node has its last events.
"""

from __future__ import annotations

import pytest

from broker.client.client import Client
from broker.client.received import since
from broker.event.place import Position
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


@pytest.mark.parametrize("seed", seeds(1, 12))
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


def start_beside_publishers(world: NetworkWorld, node: str, *publishing: str) -> Reader:
    """Start a reader of the whole past at `node` while events are being committed."""
    publishers = [Publisher(world.client(f"p-{name}", name)) for name in publishing]
    client = world.client("reader", node)
    world.run_until(lambda: client.connected and all(p.client.connected for p in publishers))
    for publisher in publishers:
        publisher.publish()
    world.run_until(lambda: not any(p.client.unacknowledged for p in publishers))
    for publisher in publishers:
        publisher.publish()
    reader = Reader(world, client, start=since(Position()))
    for publisher in publishers:
        publisher.publish()
    world.run_until(lambda: reader.is_flowing)
    return reader


@pytest.mark.parametrize("publishing", ["a", "b", "ab"])
@pytest.mark.parametrize("node", ["a", "b"])
@pytest.mark.parametrize("seed", seeds(1, 4))
def test_events_being_committed_at_the_cut_are_recovered(
    seed: int, node: str, publishing: str
) -> None:
    """The commit takes longer than the way of the first page."""
    with NetworkWorld(seed, thread_delay=0.2) as world:
        world.add("a", "c")
        world.add("b", "c", join=["a"])
        world.run(4.0)
        reader = start_beside_publishers(world, node, *publishing)
        read(world, reader, seconds=5.0)
        assert reader.gaps == []
        reader.check(read_logs(world))
        assert len(reader.events) == 3 * len(publishing)


def test_a_recovery_does_not_wait_for_a_full_disk() -> None:
    with NetworkWorld(1, thread_delay=0.2) as world:
        world.add("a", "c")
        world.add("b", "c", join=["a"])
        world.run(4.0)
        early = Publisher(world.client("early", "b"))
        early.publish()
        world.run_until(lambda: not early.client.unacknowledged and early.client.connected)
        publisher = Publisher(world.client("publisher", "a"))
        client = world.client("reader", "a")
        world.run_until(lambda: client.connected and publisher.client.connected)
        world.set_disk_full("a", True)
        publisher.publish()
        reader = Reader(world, client, start=since(Position()))
        read(world, reader, seconds=5.0)
        assert [name_of(event)[0] for event in reader.events] == ["early"]
        world.set_disk_full("a", False)
        read(world, reader, seconds=10.0)
        assert [name_of(event)[0] for event in reader.events] == ["early", "publisher"]
