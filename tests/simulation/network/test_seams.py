"""The seam between what is recovered and what is live, while everything moves (N14, X8).

Clocks of nodes step forth and back by hours, publishers and subscribers go from node to node, nodes
die and come back, queries are still on their way when events come: each event that matches comes
once to each subscriber, in its origin's order. (A publisher that goes on while the node dies that
has its last events is no longer in order itself: these come when that node is back.)
"""

from __future__ import annotations

import pytest

from broker.client.client import Client
from broker.testing.simulated_network import NetworkWorld
from tests.seeds import seeds
from tests.simulation.network.watching import INTERESTS, Publisher, Reader, name_of, read, truths
from tests.simulation.watching import STREAMS

NODES = ("a", "b", "c")
HOUR = 3_600_000


class Moving:
    """A durable subscription whose client goes wherever it likes."""

    def __init__(self, world: NetworkWorld, name: str, interest: int) -> None:
        self.world = world
        self.name = name
        self.interest = interest
        self.processes: list[Reader] = []
        self.client: Client | None = None
        self.come()

    def come(self) -> None:
        """A new process, at any node that runs."""
        world = self.world
        node = world.random.choice(world.running)
        self.client = world.client(self.name, node, incarnation=len(self.processes) + 1)
        reader = Reader(world, self.client, INTERESTS[self.interest], durable="d")
        self.processes.append(reader)

    def go(self) -> None:
        """It ends, with everything that it has got acknowledged."""
        reader = self.processes[-1]
        if not reader.flowing:
            return
        read(self.world, reader, seconds=1.0)
        assert self.client is not None
        self.world.kill_client(self.client)
        self.come()


@pytest.mark.parametrize("seed", seeds(4, 12))
def test_each_event_comes_once_whatever_moves(seed: int) -> None:
    with NetworkWorld(seed, archived=seed % 2 == 0) as world:
        random = world.random
        for name in NODES:
            world.add(name, "c", join=["a"] if name != "a" else ())
        world.run(4.0)
        publishers = [
            Publisher(world, world.client(f"p{n}", *random.sample(NODES, 2), longest_wait=0.2))
            for n in range(3)
        ]
        moving = [Moving(world, f"m{n}", n % 3) for n in range(3)]
        world.run_until(lambda: all(each.processes[0].flowing for each in moving))
        for _ in range(25):
            for publisher in publishers:
                publisher.publish(random.choice(STREAMS), random.choice((7, 100, 1000)))
            strike = random.randrange(6)
            if strike == 0:
                world.set_clock_offset(random.choice(NODES), random.randrange(-3 * HOUR, 3 * HOUR))
            elif strike == 1:
                random.choice(moving).go()
            elif strike == 2:
                # The first of its nodes is cut off: it goes to the other one, and may send again.
                world.cut_client(random.choice(publishers).client.client_id)
            elif strike == 3:
                name = random.choice(world.running)
                world.kill(name)
                world.run(random.choice((0.0, 0.3, 3.0)))
                world.start(name)
            for each in moving:
                each.processes[-1].read()
            world.run(random.choice((0.0, 0.02, 0.3)))
        world.run_until(lambda: not any(each.client.unacknowledged for each in publishers))
        for _ in range(90):
            world.run(1.0)
            for each in moving:
                each.processes[-1].read()
        logs = truths(world)
        for each in moving:
            got = [name_of(event) for reader in each.processes for event in reader.events]
            where = f"{each.name}, seed {seed}"
            assert [r.error for r in each.processes] == [None] * len(each.processes), where
            wanted = set(each.processes[0].wanted(logs))
            assert set(got) >= wanted, f"{sorted(wanted - set(got))} are missing ({where})"
            for reader in each.processes:
                names = [name_of(event) for event in reader.events]
                assert len(names) == len(set(names)), f"twice ({where})"
                marks: dict[str, tuple[int, int]] = {}
                for event in reader.events:
                    place = event.place
                    assert marks.get(place.origin, (0, 0)) < place.mark, f"{place} ({where})"
                    marks[place.origin] = place.mark
