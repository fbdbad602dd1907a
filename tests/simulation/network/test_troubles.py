"""Links are cut and nodes are killed: every subscriber gets every event once and in order (A22)."""

from __future__ import annotations

import pytest

from broker.testing.simulated_network import NetworkWorld
from tests.seeds import seeds
from tests.simulation.network.topologies import SHAPES, Trouble
from tests.simulation.network.watching import INTERESTS, Publisher, Reader, check_results, settle
from tests.simulation.watching import STREAMS

ALTITUDES = (7, 100, 250, 600, 1000)
#: Seconds after which links are there and everybody was asked for what was missed, whatever rests
#: had begun before the trouble ended.
LONGEST_RECOVERY = 100.0


def run(seed: int, *, killing: bool) -> None:
    """A network in which much goes wrong for a while, seen by its users."""
    with NetworkWorld(seed) as world:
        random = world.random
        edges = SHAPES[seed % len(SHAPES)](world, random.randint(2, 6))
        world.run(4.0)
        names = world.names
        chosen = random.sample(names, min(3, len(names)))
        publishers = [Publisher(world, world.client(f"p-{name}", name)) for name in chosen]
        readers = []
        for number, interest in enumerate(INTERESTS):
            client = world.client(f"reader{number}", random.choice(names))
            durable = random.choice(("", "d"))
            readers.append(Reader(world, client, interest, durable=durable))
        world.run_until(lambda: all(reader.flowing for reader in readers))
        trouble = Trouble(world, edges, names if killing else [])
        for _ in range(150):
            for publisher in publishers:
                if random.random() < 0.5:
                    publisher.publish(random.choice(STREAMS), random.choice(ALTITUDES))
            if random.random() < 0.3:
                trouble.strike()
            for reader in readers:
                reader.read()
            world.run(random.choice((0.0, 0.01, 0.1, 0.5)))
        trouble.end()
        world.run(LONGEST_RECOVERY)
        logs = settle(world, publishers, readers)
        check_results(publishers, logs, seed)
        if not killing:
            assert [reader.gaps for reader in readers] == [[] for _ in readers]


@pytest.mark.parametrize("seed", seeds(2, 4))
def test_links_are_cut(seed: int) -> None:
    run(seed, killing=False)


@pytest.mark.parametrize("seed", [0, 2, 12, 20, 22])
def test_links_are_cut_and_nodes_killed(seed: int) -> None:
    run(seed, killing=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(2, 12, first=100))
def test_much_trouble(seed: int) -> None:
    run(seed, killing=seed % 2 == 0)
