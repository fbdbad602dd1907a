from __future__ import annotations

from pathlib import Path

import pytest

from broker.client.received import STORED
from broker.testing.flights import INTERESTS
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, name_of, read
from tests.seeds import seeds


def numbers(reader: Reader) -> list[int]:
    return [name_of(event)[2] for event in reader.events]


def lost_places(reader: Reader) -> int:
    return sum(gap.last.offset - gap.first.offset + 1 for gap in reader.gaps)


@pytest.mark.parametrize("seed", seeds(1, 2))
def test_archive_returns_the_events_of_a_lone_node(seed: int) -> None:
    with NetworkWorld(seed, archived=True) as world:
        world.add("a", "one")
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
        world.run(10.0)
        world.kill("a")
        world.restore_disk("a", copy)
        for _ in range(2):
            world.start("a")
            publisher.publish()
            world.run(20.0)
            world.kill("a")
        world.start("a")
        returning = Reader(world, world.client("own", "a", incarnation=2), durable="d")
        read(world, returning, seconds=30.0)
        assert sorted(numbers(returning)) == list(range(6, 13)), f"seed {seed}"
        assert returning.gaps == []


@pytest.mark.parametrize("seed", seeds(1, 2))
def test_roaming_client_gets_a_gap_for_a_branch_that_only_a_node_knew(seed: int) -> None:
    """The node with the five lost events is dead for good."""
    with NetworkWorld(seed, archived=True) as world:
        assert world.archive is not None
        world.add("a", "one")
        world.add("b", "two", gateways=["a"])
        world.run(3.0)
        rover = Reader(world, world.client("rover", "a"), durable="d")
        far = Reader(world, world.client("far", "b"), INTERESTS[3], durable="d")
        publisher = Publisher(world.client("publisher", "a"))
        world.run_until(lambda: rover.is_flowing and far.is_flowing)
        for _ in range(10):
            publisher.publish()
        read(world, rover)
        world.run(5.0)
        world.kill_client(rover.client)
        copy = world.copy_disk("a")
        world.archive.is_broken = True
        for _ in range(5):
            publisher.publish()
        world.run(2.0)
        world.kill("a")
        world.restore_disk("a", copy)
        world.archive.is_broken = False
        world.start("a")
        world.run(20.0)
        branch_restore = world["a"].recovery.branch_restore
        assert branch_restore is not None and branch_restore.counts.lost == 5
        for _ in range(3):
            publisher.publish()
        world.run(10.0)
        # The restarted archiver has nothing to do.
        file_count = len(list(Path(world.archive.uri).rglob("*.json")))
        world.kill("a")
        world.start("a")
        world.run(20.0)
        assert len(list(Path(world.archive.uri).rglob("*.json"))) < file_count + 8
        world.kill("a")
        world.lose_disk("a")
        world.run(20.0)
        returning = Reader(
            world, world.client("rover", "b", incarnation=2), durable="d", start=STORED
        )
        read(world, returning, seconds=90.0)
        assert returning.error is None
        assert numbers(returning) == [16, 17, 18], f"seed {seed}"
        assert lost_places(returning) == 5 and {gap.reason for gap in returning.gaps} == {
            "unreachable"
        }
