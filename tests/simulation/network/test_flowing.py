"""When a subscription flows nothing is missed behind its cut; when it ends nobody knows of it."""

from __future__ import annotations

from typing import Any

import pytest

from broker.testing.simulated_network import NetworkWorld
from tests.seeds import seeds
from tests.simulation.network.topologies import SHAPES
from tests.simulation.network.watching import (
    INTERESTS,
    Publisher,
    Reader,
    check_results,
    read,
    settle,
)
from tests.simulation.watching import STREAMS


def wants_of(world: NetworkWorld) -> dict[str, dict[Any, int]]:
    """How many wants of whom each node has."""
    return {
        name: {str(whom): count for whom, count in network.remote_interest.count_by_destination().items()}
        for name in world.running
        for network in [world.network_of(name)]
    }


@pytest.mark.parametrize("seed", [0, 1, 3, 5, 7])
def test_who_subscribes_while_events_are_published_misses_nothing_behind_its_cut(seed: int) -> None:
    with NetworkWorld(seed, jitter=0.03) as world:
        random = world.random
        SHAPES[seed % len(SHAPES)](world, random.randint(2, 6))
        world.run(4.0)
        names = world.names
        publishers = [Publisher(world, world.client(f"p-{name}", name)) for name in names]
        readers: list[Reader] = []
        clients = [world.client(f"reader{number}", random.choice(names)) for number in range(4)]
        world.run(1.0)
        for _ in range(120):
            for publisher in publishers:
                if random.random() < 0.7:
                    publisher.publish(random.choice(STREAMS), random.choice((7, 250, 1000)))
            if random.random() < 0.25:
                reader = Reader(world, random.choice(clients), random.choice(INTERESTS))
                readers.append(reader)
            if readers and random.random() < 0.1:
                # Both directions: what covered others goes while they are on their way.
                gone = random.choice(readers)
                if gone.subscription is not None:
                    gone.subscription.unsubscribe()
                    readers.remove(gone)
            world.run(random.choice((0.0, 0.002, 0.02)))
        logs = settle(world, publishers, readers)
        check_results(publishers, logs, seed)
        assert not any(reader.gaps for reader in readers)


@pytest.mark.parametrize("seed", seeds(3, 6))
def test_when_nobody_wants_anything_no_node_knows_of_a_want(seed: int) -> None:
    with NetworkWorld(seed) as world:
        random = world.random
        SHAPES[seed % len(SHAPES)](world, random.randint(3, 6))
        world.run(4.0)
        fresh = wants_of(world)
        readers = []
        for number in range(12):
            client = world.client(f"reader{number}", random.choice(world.names))
            readers.append(Reader(world, client, INTERESTS[number % len(INTERESTS)]))
            world.run(random.choice((0.0, 0.01, 0.5)))
        world.run_until(lambda: all(reader.flowing for reader in readers))
        assert wants_of(world) != fresh
        for reader in readers:
            assert reader.subscription is not None
            reader.subscription.unsubscribe()
            world.run(random.choice((0.0, 0.01, 0.5)))
        world.run(10.0)
        assert wants_of(world) == fresh


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_what_another_subscription_covers_flows_at_once(seed: int) -> None:
    with NetworkWorld(seed, latency=0.05) as world:
        world.add("a", "one")
        world.add("b", "two", gateways=["a"])
        world.run(4.0)
        client = world.client("reader", "b")
        wide = Reader(world, client)
        world.run_until(lambda: wide.flowing)
        began = world.clock.seconds()
        narrow = Reader(world, client, INTERESTS[1])
        world.run_until(lambda: narrow.flowing)
        # A round trip to its node, and none to another one.
        assert world.clock.seconds() - began < 0.2
        publisher = Publisher(world, world.client("publisher", "a"))
        publisher.publish()
        assert wide.subscription is not None
        wide.subscription.unsubscribe()
        for _ in range(5):
            publisher.publish()
            world.run(0.1)
        settle(world, [publisher], [narrow])
        assert len(narrow.events) == 6


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_a_forgotten_durable_subscription_leaves_nothing(seed: int) -> None:
    with NetworkWorld(seed) as world:
        world.add("a", "one")
        world.add("b", "two", gateways=["a"])
        world.run(4.0)
        fresh = wants_of(world)
        client = world.client("reader", "b")
        durable = Reader(world, client, INTERESTS[1], durable="d")
        world.run_until(lambda: durable.flowing)
        world.kill_client(client)
        # Longer than its session lives on.
        world.run(100.0)
        assert wants_of(world) != fresh
        again = Reader(world, world.client("reader", "b", incarnation=2), INTERESTS[1], durable="d")
        world.run_until(lambda: again.flowing)
        read(world, again)
        assert again.gaps == []
        assert again.subscription is not None
        again.subscription.unsubscribe(forget=True)
        world.run(10.0)
        assert wants_of(world) == fresh
