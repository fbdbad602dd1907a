from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from broker.client.received import STORED, since
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, name_of, read
from tests.seeds import seeds


def numbers(reader: Reader) -> list[int]:
    return [name_of(event)[2] for event in reader.events]


@pytest.mark.parametrize("seed", seeds(1, 2))
def test_all_nodes_of_a_cluster_are_restored_at_once(seed: int) -> None:
    with NetworkWorld(seed) as world:
        world.add("a", "one")
        world.add("b", "one", join=["a"])
        world.add("c", "two", gateways=["a"])
        world.run(5.0)
        readers = [Reader(world, world.client(f"at-{n}", n), durable="d") for n in "abc"]
        publishers = [Publisher(world.client(f"p-{n}", n)) for n in "ab"]
        world.run_until(lambda: all(reader.is_flowing for reader in readers))
        for _ in range(5):
            for publisher in publishers:
                publisher.publish()
        read(world, *readers)
        copies = {"a": world.copy_disk("a")}
        for _ in range(5):
            for publisher in publishers:
                publisher.publish()
        read(world, *readers)
        copies["b"] = world.copy_disk("b")
        for _ in range(5):
            for publisher in publishers:
                publisher.publish()
        read(world, *readers)
        for name in copies:
            world.kill(name)
        for name, copy in copies.items():
            world.restore_disk(name, copy)
            world.start(name)
        world.run(20.0)
        for publisher in publishers:
            publisher.publish()
        late = [Reader(world, world.client(f"late-{n}", n)) for n in "abc"]
        read(world, *readers, *late, seconds=40.0)
        expected = [(f"p-{n}", 1, i) for n in "ab" for i in range(1, 17)]
        for reader in readers:
            assert reader.error is None
            assert sorted(map(name_of, reader.events)) == expected, (reader.client.client_id, seed)
            assert reader.gaps == []
        for name in "ab":
            events = world.wait(world[name].event_log.read(1, 1 << 20, 1 << 30))
            assert len(events) >= len(expected), (name, seed)


@pytest.mark.parametrize("seed", seeds(1, 2))
def test_restored_archive_gets_its_events_again(seed: int) -> None:
    with NetworkWorld(seed, archived=True) as world:
        assert world.archive is not None
        world.add("a", "one")
        world.add("b", "two", gateways=["a"])
        world.run(3.0)
        rover = Reader(world, world.client("rover", "a"), durable="d")
        publisher = Publisher(world.client("publisher", "a"))
        world.run_until(lambda: rover.is_flowing)
        for _ in range(5):
            publisher.publish()
        read(world, rover)
        world.run(5.0)
        world.kill_client(rover.client)
        folder = Path(world.archive.uri)
        copy = folder.with_name("archive-copy")
        shutil.copytree(folder, copy)
        for _ in range(5):
            publisher.publish()
            world.run(3.0)
        shutil.rmtree(folder)
        shutil.copytree(copy, folder)
        publisher.publish()
        world.run(30.0)
        world.kill("a")
        world.lose_disk("a")
        world.run(20.0)
        returning = Reader(
            world, world.client("rover", "b", incarnation=2), durable="d", start=STORED
        )
        read(world, returning, seconds=90.0)
        assert returning.error is None
        assert numbers(returning) == list(range(6, 12)) and returning.gaps == [], f"seed {seed}"


@pytest.mark.parametrize("at", ["a", "b"])
@pytest.mark.parametrize("further", [0, 3])
def test_position_of_a_lost_branch_resumes_at_any_node(at: str, further: int) -> None:
    with NetworkWorld(1) as world:
        world.add("a", "one")
        world.add("b", "two", gateways=["a"])
        world.run(3.0)
        client = world.client("rover", "a")
        rover = Reader(world, client, durable="d")
        publisher = Publisher(world.client("publisher", "a"))
        world.run_until(lambda: rover.is_flowing)
        for _ in range(5):
            publisher.publish()
        read(world, rover)
        copy = world.copy_disk("a")
        for _ in range(5 + further):
            publisher.publish()
        read(world, rover)
        assert rover.subscription is not None
        position = rover.subscription.position
        world.kill_client(client)
        world.kill("a")
        world.restore_disk("a", copy)
        world.start("a")
        world.run(10.0)
        for _ in range(5):
            publisher.publish()
        world.run(5.0)
        returning = Reader(
            world, world.client("rover", at, incarnation=2), durable="d", start=since(position)
        )
        publisher.publish()
        read(world, returning, seconds=40.0)
        assert returning.error is None
        first = 11 + further
        assert sorted(numbers(returning)) == list(range(first, first + 6))
