from __future__ import annotations

from typing import Any

import pytest

from broker.testing.flights import INTERESTS, STREAMS
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read
from tests.seeds import seeds
from tests.simulation.network.simulated_client import check_results, settle
from tests.simulation.network.topologies import SHAPES


def interest_counts(world: NetworkWorld) -> dict[str, dict[Any, int]]:
    return {
        name: {
            str(destination): count
            for destination, count in network.remote_interest.count_by_destination().items()
        }
        for name in world.running
        for network in [world.network_of(name)]
    }


@pytest.mark.parametrize("seed", [0, 1, 3, 5, 7])
def test_subscriptions_made_under_load_get_all_events_after_their_cut(seed: int) -> None:
    with NetworkWorld(seed, jitter=0.03) as world:
        random = world.random
        SHAPES[seed % len(SHAPES)](world, random.randint(2, 6))
        world.run(4.0)
        names = world.names
        publishers = [Publisher(world.client(f"p-{name}", name)) for name in names]
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
                # This may uncover others while they are announced.
                ended = random.choice(readers)
                if ended.subscription is not None:
                    ended.subscription.unsubscribe()
                    readers.remove(ended)
            world.run(random.choice((0.0, 0.002, 0.02)))
        logs = settle(world, publishers, readers)
        check_results(publishers, logs, seed)
        assert not any(reader.gaps for reader in readers)


@pytest.mark.parametrize("seed", seeds(1, 6))
def test_no_interest_is_left_when_all_subscriptions_ended(seed: int) -> None:
    with NetworkWorld(seed) as world:
        random = world.random
        SHAPES[seed % len(SHAPES)](world, random.randint(3, 6))
        world.run(4.0)
        initial = interest_counts(world)
        readers = []
        for number in range(12):
            client = world.client(f"reader{number}", random.choice(world.names))
            readers.append(Reader(world, client, INTERESTS[number % len(INTERESTS)]))
            world.run(random.choice((0.0, 0.01, 0.5)))
        world.run_until(lambda: all(reader.is_flowing for reader in readers))
        assert interest_counts(world) != initial
        for reader in readers:
            assert reader.subscription is not None
            reader.subscription.unsubscribe()
            world.run(random.choice((0.0, 0.01, 0.5)))
        world.run(10.0)
        assert interest_counts(world) == initial


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_covered_subscription_flows_at_once(seed: int) -> None:
    with NetworkWorld(seed, latency=0.05) as world:
        world.add("a", "one")
        world.add("b", "two", gateways=["a"])
        world.run(4.0)
        client = world.client("reader", "b")
        wide = Reader(world, client)
        world.run_until(lambda: wide.is_flowing)
        began = world.clock.seconds()
        narrow = Reader(world, client, INTERESTS[1])
        world.run_until(lambda: narrow.is_flowing)
        # One round trip to its node, none to another.
        assert world.clock.seconds() - began < 0.2
        publisher = Publisher(world.client("publisher", "a"))
        publisher.publish()
        assert wide.subscription is not None
        wide.subscription.unsubscribe()
        for _ in range(5):
            publisher.publish()
            world.run(0.1)
        settle(world, [publisher], [narrow])
        assert len(narrow.events) == 6


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_forgotten_durable_subscription_leaves_no_interest(seed: int) -> None:
    with NetworkWorld(seed) as world:
        world.add("a", "one")
        world.add("b", "two", gateways=["a"])
        world.run(4.0)
        initial = interest_counts(world)
        client = world.client("reader", "b")
        durable = Reader(world, client, INTERESTS[1], durable="d")
        world.run_until(lambda: durable.is_flowing)
        world.kill_client(client)
        # Longer than the session's lease.
        world.run(100.0)
        assert interest_counts(world) != initial
        again = Reader(world, world.client("reader", "b", incarnation=2), INTERESTS[1], durable="d")
        world.run_until(lambda: again.is_flowing)
        read(world, again)
        assert again.gaps == []
        assert again.subscription is not None
        again.subscription.unsubscribe(forget=True)
        world.run(10.0)
        assert interest_counts(world) == initial
