from __future__ import annotations

import pytest

from broker.config import Settings, StreamSettings
from broker.event.stream import StreamPattern
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, name_of, read
from tests.seeds import seeds


def numbers(reader: Reader) -> list[int]:
    return [name_of(event)[2] for event in reader.events]


def guarded() -> Settings:
    return Settings(streams=(StreamSettings(StreamPattern.parse(">"), acknowledge="neighbour"),))


@pytest.mark.parametrize("seed", seeds(1, 2))
def test_replica_returns_lost_events(seed: int) -> None:
    with NetworkWorld(seed) as world:
        world.add("a", "one", settings=guarded())
        world.add("keeper", "one", settings=guarded(), join=["a"])
        world.run(5.0)
        own = Reader(world, world.client("own", "a"), durable="d")
        publisher = Publisher(world.client("publisher", "a"))
        world.run_until(lambda: own.is_flowing)
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
        returning = Reader(world, world.client("own", "a", incarnation=2), durable="d")
        world.run(10.0)
        publisher.publish()
        read(world, returning, seconds=30.0)
        assert sorted(numbers(returning)) == [6, 7, 8, 9, 10, 11], f"seed {seed}"
        assert returning.gaps == []


@pytest.mark.parametrize("seed", seeds(1, 2))
def test_archive_returns_lost_events(seed: int) -> None:
    with NetworkWorld(seed, archived=True) as world:
        world.add("a", "one")
        world.add("b", "two", gateways=["a"])
        world.run(3.0)
        own = Reader(world, world.client("own", "a"), durable="d")
        publisher = Publisher(world.client("publisher", "a"))
        world.run_until(lambda: own.is_flowing)
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
        returning = Reader(world, world.client("own", "a", incarnation=2), durable="d")
        publisher.publish()
        read(world, returning, seconds=60.0)
        assert sorted(numbers(returning)) == [6, 7, 8, 9, 10, 11], f"seed {seed}"
        assert returning.gaps == []


def test_event_resent_from_an_outbox_is_delivered_once() -> None:
    """The acknowledgement was lost, and so was the branch with the event."""
    with NetworkWorld(3) as world:
        world.add("a", "one")
        world.add("b", "two", gateways=["a"])
        world.run(3.0)
        far = Reader(world, world.client("far", "b"), durable="d")
        own = Reader(world, world.client("own", "a"), durable="d")
        first = Publisher(world.client("publisher", "a"))
        world.run_until(lambda: far.is_flowing and own.is_flowing)
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
            assert sorted(numbers(reader)) == [1, 2, 3, 4, 5, 6, 7], reader.client.client_id
            assert reader.gaps == []
