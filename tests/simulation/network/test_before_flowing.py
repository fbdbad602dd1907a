"""A client's node dies before its subscription flows there; the client goes on at another one."""

from __future__ import annotations

import pytest

from broker.testing.simulated_network import NetworkWorld
from tests.seeds import seeds
from tests.simulation.network.watching import INTERESTS, Publisher, Reader, read, settle

SEEDS = seeds(3, 8)


def a_cluster(world: NetworkWorld, *names: str) -> None:
    """All in one cluster."""
    for name in names:
        world.add(name, "c", join=names[:1] if name != names[0] else ())
    world.run(4.0)


@pytest.mark.parametrize("durable", ["", "d"])
@pytest.mark.parametrize("seed", SEEDS)
def test_what_came_before_it_flowed_hides_no_hole(seed: int, durable: str) -> None:
    """The second node gets some of the events for others: they must not count as all."""
    with NetworkWorld(seed) as world:
        random = world.random
        a_cluster(world, "a", "first", "second", "third")
        publisher = Publisher(world, world.client("publisher", "a"))
        # It wants altitudes above 500 of some streams; the reader wants everything.
        other = Reader(world, world.client("other", "second"), INTERESTS[1])
        client = world.client("reader", "first", "second", "third", longest_wait=0.2)
        reader = Reader(world, client, durable=durable)
        world.run_until(lambda: other.flowing and reader.flowing)
        publisher.publish(altitude=1000)
        read(world, other, reader, seconds=1.0)
        # Wants need a while to the publisher's node; until then only the other one's events come.
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
def test_an_event_that_came_under_another_place_does_not_come_again(seed: int) -> None:
    """Two nodes took it, and the client's second node has it from the one, the first from the
    other."""
    with NetworkWorld(seed) as world:
        a_cluster(world, "a", "b", "first", "second")
        publisher = Publisher(world, world.client("publisher", "a", "b", longest_wait=0.2))
        other = Reader(world, world.client("other", "second"))
        reader = Reader(world, world.client("reader", "first", "second", longest_wait=0.2))
        world.run_until(lambda: reader.flowing and other.flowing and publisher.client.connected)
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
def test_what_arrived_and_was_not_processed_comes_to_the_next_process(seed: int) -> None:
    """The process moved on to another node with it, and died there."""
    with NetworkWorld(seed) as world:
        a_cluster(world, "a", "first", "second")
        publisher = Publisher(world, world.client("publisher", "a"))
        other = Reader(world, world.client("other", "second"))
        client = world.client("reader", "first", "second", longest_wait=0.2)
        reader = Reader(world, client, durable="d")
        world.run_until(lambda: reader.flowing and other.flowing)
        for _ in range(world.random.randint(1, 40)):
            publisher.publish()
            world.run(0.01)
        world.run(0.5)
        world.kill("first")
        sessions = world["second"].reception
        world.run_until(lambda: any(s.identity.client_id == "reader" for s in sessions.sessions))
        # The one where it was is asked for it, and does not answer.
        world.run(20.0)
        assert not reader.events
        world.kill_client(client)
        again = Reader(world, world.client("reader", "second", incarnation=2), durable="d")
        again.began_after = reader.began_after
        settle(world, [publisher], [again, other])
        assert len(again.events) == publisher.published
