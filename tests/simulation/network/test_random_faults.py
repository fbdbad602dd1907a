"""Links are cut and nodes killed: each subscriber gets each event once, in order (A22)."""

from __future__ import annotations

import pytest

from broker.testing.flights import INTERESTS, STREAMS
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader
from tests.seeds import further_cases, seeds
from tests.simulation.network.simulated_client import check_results, settle
from tests.simulation.network.topologies import SHAPES, RandomFaults

ALTITUDES = (7, 100, 250, 600, 1000)
#: Seconds after the last fault, backoff included.
LONGEST_RECOVERY = 100.0


def run_with_faults(seed: int, *, killing: bool) -> None:
    with NetworkWorld(seed) as world:
        random = world.random
        edges = SHAPES[seed % len(SHAPES)](world, random.randint(2, 6))
        world.run(4.0)
        names = world.names
        publishing = random.sample(names, min(3, len(names)))
        publishers = [Publisher(world.client(f"p-{name}", name)) for name in publishing]
        readers = []
        for number, interest in enumerate(INTERESTS):
            client = world.client(f"reader{number}", random.choice(names))
            durable = random.choice(("", "d"))
            readers.append(Reader(world, client, interest, durable=durable))
        world.run_until(lambda: all(reader.is_flowing for reader in readers))
        faults = RandomFaults(world, edges, names if killing else [])
        for _ in range(150):
            for publisher in publishers:
                if random.random() < 0.5:
                    publisher.publish(random.choice(STREAMS), random.choice(ALTITUDES))
            if random.random() < 0.3:
                faults.inject_one()
            for reader in readers:
                reader.read()
            world.run(random.choice((0.0, 0.01, 0.1, 0.5)))
        faults.repair_all()
        world.run(LONGEST_RECOVERY)
        logs = settle(world, publishers, readers)
        check_results(publishers, logs, seed)
        if not killing:
            assert [reader.gaps for reader in readers] == [[] for _ in readers]


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_events_arrive_once_while_links_are_cut(seed: int) -> None:
    run_with_faults(seed, killing=False)


@pytest.mark.parametrize("seed", [12, 22, *further_cases(0, 2, 20)])
def test_events_arrive_once_while_links_are_cut_and_nodes_killed(seed: int) -> None:
    run_with_faults(seed, killing=True)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 112))
def test_events_arrive_once_in_many_runs(seed: int) -> None:
    run_with_faults(seed, killing=seed % 2 == 0)
