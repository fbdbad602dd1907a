from __future__ import annotations

import pytest

from broker.testing.flights import INTERESTS
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read
from tests.seeds import seeds
from tests.simulation.network.simulated_client import settle

SEEDS = seeds(1, 8)


def add_cluster(world: NetworkWorld, *names: str) -> None:
    for name in names:
        world.add(name, "c", join=names[:1] if name != names[0] else ())
    world.run(4.0)


@pytest.mark.parametrize("durable", ["", "d"])
@pytest.mark.parametrize("seed", SEEDS)
def test_events_received_before_the_flow_hide_no_missing_range(seed: int, durable: str) -> None:
    """The second node receives some events for another subscription."""
    with NetworkWorld(seed) as world:
        random = world.random
        add_cluster(world, "a", "first", "second", "third")
        publisher = Publisher(world.client("publisher", "a"))
        other = Reader(world, world.client("other", "second"), INTERESTS[1])
        client = world.client("reader", "first", "second", "third", longest_wait=0.2)
        reader = Reader(world, client, durable=durable)
        world.run_until(lambda: other.is_flowing and reader.is_flowing)
        publisher.publish(altitude=1000)
        read(world, other, reader, seconds=1.0)
        # Until the interest arrives, the node gets events for `other` only.
        world.delay("a", "second", random.uniform(0.05, 0.4))
        world.kill("first")
        killed = random.uniform(0.1, 1.2)
        end = world.clock.seconds() + killed
        while world.clock.seconds() < end:
            publisher.publish("asdi.zny.tz", random.choice((7, 1000)))
            reader.read()
            world.run(0.02)
        world.kill("second")
        world.delay("a", "second", 0.001)
        for _ in range(100):
            publisher.publish("asdi.zny.tz", random.choice((7, 1000)))
            reader.read()
            world.run(0.02)
        settle(world, [publisher], [reader], seconds=15.0)
        assert client.welcome is not None and client.welcome.node == "third"


@pytest.mark.parametrize("seed", SEEDS)
def test_event_with_two_places_is_delivered_once(seed: int) -> None:
    """Each of the client's nodes gets the event from another log."""
    with NetworkWorld(seed) as world:
        add_cluster(world, "a", "b", "first", "second")
        publisher = Publisher(world.client("publisher", "a", "b", longest_wait=0.2))
        other = Reader(world, world.client("other", "second"))
        reader = Reader(world, world.client("reader", "first", "second", longest_wait=0.2))
        world.run_until(
            lambda: reader.is_flowing and other.is_flowing and publisher.client.connected
        )
        world.delay("a", "second", 3.0)
        world.delay("a", "b", 3.0)
        world.delay("b", "first", 3.0)
        world.network.set_delay(world.client_address("a", "publisher"), 0.3)
        for _ in range(20):
            publisher.publish(altitude=1000)
        read(world, reader, seconds=world.random.uniform(0.31, 0.5))
        had = len(reader.events)
        world.network.refuse(world.client_address("a", "publisher"))
        world.cut_client("publisher")
        world.run_until(lambda: not publisher.client.unacknowledged)
        world.run(0.5)
        world.kill("first")
        read(world, reader, other, seconds=1.0)
        world.delay("a", "second", 0.001)
        world.delay("a", "b", 0.001)
        settle(world, [publisher], [reader, other], seconds=15.0)
        assert had == 20 and len(reader.events) == 20
        assert reader.subscription is not None
        assert reader.subscription.duplicates_dropped == 20


@pytest.mark.parametrize("seed", SEEDS)
def test_unprocessed_events_come_to_the_next_process(seed: int) -> None:
    with NetworkWorld(seed) as world:
        add_cluster(world, "a", "first", "second")
        publisher = Publisher(world.client("publisher", "a"))
        other = Reader(world, world.client("other", "second"))
        client = world.client("reader", "first", "second", longest_wait=0.2)
        reader = Reader(world, client, durable="d")
        world.run_until(lambda: reader.is_flowing and other.is_flowing)
        for _ in range(world.random.randint(1, 40)):
            publisher.publish()
            world.run(0.01)
        world.run(0.5)
        world.kill("first")
        sessions = world["second"].acceptor
        world.run_until(lambda: any(s.identity.client_id == "reader" for s in sessions.sessions))
        world.run(20.0)
        assert not reader.events
        world.kill_client(client)
        again = Reader(world, world.client("reader", "second", incarnation=2), durable="d")
        again.starts_after = reader.starts_after
        settle(world, [publisher], [again, other])
        assert len(again.events) == publisher.published
