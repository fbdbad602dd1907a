"""Replicas, the archive and other clusters give back what a restored node has lost."""

from __future__ import annotations

import pytest

from broker.config import Settings, StreamSettings
from broker.event.stream import StreamPattern
from broker.testing.simulated_network import NetworkWorld
from tests.seeds import seeds
from tests.simulation.network.watching import Publisher, Reader, name_of, read


def names(reader: Reader) -> list[int]:
    return [name_of(event)[2] for event in reader.events]


def guarded() -> Settings:
    """A neighbour keeps copies of everything."""
    return Settings(streams=(StreamSettings(StreamPattern.parse(">"), acknowledge="neighbour"),))


@pytest.mark.parametrize("seed", seeds(1, 2))
def test_a_replica_gives_back_what_no_other_node_wanted(seed: int) -> None:
    with NetworkWorld(seed) as world:
        world.add("a", "one", settings=guarded())
        world.add("keeper", "one", settings=guarded(), join=["a"])
        world.run(5.0)
        own = Reader(world, world.client("own", "a"), durable="d")
        publisher = Publisher(world, world.client("publisher", "a"))
        world.run_until(lambda: own.flowing)
        for _ in range(5):
            publisher.publish()
        read(world, own)
        world.kill_client(own.client)
        copy = world.copy_disk("a")
        for _ in range(5):
            publisher.publish()
        world.run(5.0)
        assert len(publisher.receipts) == 10
        world.kill("a")
        world.restore_disk("a", copy)
        world.start("a")
        back = Reader(world, world.client("own", "a", incarnation=2), durable="d")
        world.run(10.0)
        publisher.publish()
        read(world, back, seconds=30.0)
        assert sorted(names(back)) == [6, 7, 8, 9, 10, 11], f"seed {seed}"
        assert back.gaps == []


@pytest.mark.parametrize("seed", seeds(1, 2))
def test_the_archive_gives_back_what_no_node_has(seed: int) -> None:
    with NetworkWorld(seed, archived=True) as world:
        world.add("a", "one")
        world.add("b", "two", gateways=["a"])
        world.run(3.0)
        own = Reader(world, world.client("own", "a"), durable="d")
        publisher = Publisher(world, world.client("publisher", "a"))
        world.run_until(lambda: own.flowing)
        for _ in range(5):
            publisher.publish()
        read(world, own)
        world.kill_client(own.client)
        copy = world.copy_disk("a")
        for _ in range(5):
            publisher.publish()
        world.run(60.0)
        world.kill("a")
        world.restore_disk("a", copy)
        world.start("a")
        world.run(60.0)
        back = Reader(world, world.client("own", "a", incarnation=2), durable="d")
        publisher.publish()
        read(world, back, seconds=60.0)
        assert sorted(names(back)) == [6, 7, 8, 9, 10, 11], f"seed {seed}"
        assert back.gaps == []


@pytest.mark.parametrize("seed", seeds(1, 2))
def test_two_nodes_of_a_cluster_that_are_restored_at_once_give_back_each_others_events(
    seed: int,
) -> None:
    """The third node, in another cluster, has the events of both."""
    with NetworkWorld(seed) as world:
        world.add("a", "one")
        world.add("b", "one", join=["a"])
        world.add("c", "two", gateways=["a"])
        world.run(5.0)
        readers = [Reader(world, world.client(f"at-{n}", n), durable="d") for n in "abc"]
        publishers = [Publisher(world, world.client(f"p-{n}", n)) for n in "ab"]
        world.run_until(lambda: all(reader.flowing for reader in readers))
        for _ in range(5):
            for publisher in publishers:
                publisher.publish()
        read(world, *readers)
        copies = {name: world.copy_disk(name) for name in "ab"}
        for _ in range(5):
            for publisher in publishers:
                publisher.publish()
        read(world, *readers)
        for name, copy in copies.items():
            world.kill(name)
            world.restore_disk(name, copy)
        for name in copies:
            world.start(name)
        world.run(20.0)
        for publisher in publishers:
            publisher.publish()
        read(world, *readers, seconds=40.0)
        expected = [(f"p-{n}", 1, i) for n in "ab" for i in range(1, 12)]
        for reader in readers:
            assert sorted(map(name_of, reader.events)) == expected, (reader.client.client_id, seed)
            assert reader.gaps == []
        for name in "ab":
            log = world[name].event_log
            events = world.wait(log.read(1, 1 << 20, 1 << 30))
            assert len(events) >= len(expected), (name, seed)


def test_an_event_that_comes_again_from_an_outbox_is_not_delivered_twice() -> None:
    """Its acknowledgement was lost, and so was the branch on which it was given."""
    with NetworkWorld(3) as world:
        world.add("a", "one")
        world.add("b", "two", gateways=["a"])
        world.run(3.0)
        far = Reader(world, world.client("far", "b"), durable="d")
        own = Reader(world, world.client("own", "a"), durable="d")
        first = Publisher(world, world.client("publisher", "a"))
        world.run_until(lambda: far.flowing and own.flowing)
        copy = world.copy_disk("a")
        world.network.set_delay(world.client_address("a", "publisher"), 1.0, 0.0)
        for _ in range(5):
            first.publish()
        for _ in range(100):
            read(world, far, own, seconds=0.05)
            if len(far.events) == len(own.events) == 5:
                break
        assert not first.receipts
        world.kill("a")
        world.restore_disk("a", copy)
        world.start("a")
        world.network.set_delay(world.client_address("a", "publisher"), 0.001, 0.0)
        for _ in range(2):
            first.publish()
        read(world, far, own, seconds=40.0)
        assert len(first.receipts) == 7
        for reader in (far, own):
            assert sorted(names(reader)) == [1, 2, 3, 4, 5, 6, 7], reader.client.client_id
            assert reader.gaps == []
