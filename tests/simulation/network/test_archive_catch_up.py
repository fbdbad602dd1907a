"""The archive replaces a dead node whose last events no other node has (X6)."""

from __future__ import annotations

import pytest

from broker.recovery.archive_catch_up import CHECK_INTERVAL
from broker.recovery.snapshot import recovery_snapshot
from broker.testing.flights import INTERESTS, Interest
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, name_of
from tests.seeds import seeds

SEEDS = seeds(1, 4)
#: Seconds until a node counts as dead and the archive has answered.
SILENCE = 60.0 + 2 * CHECK_INTERVAL + 10.0


class PartedNodes:
    """A client reads at `b`; the link is cut before `a` dies."""

    def __init__(self, seed: int, interest: Interest = INTERESTS[0], *, cluster: str = "c") -> None:
        self.world = world = NetworkWorld(seed, archived=True)
        world.add("a", "c")
        world.add(
            "b", cluster, join=["a"] if cluster == "c" else [], gateways=["a"] * (cluster != "c")
        )
        world.run(4.0)
        self.publisher = Publisher(world.client("publisher", "a"))
        self.reader = Reader(world, world.client("reader", "b"), interest)
        world.run_until(lambda: self.reader.is_flowing)
        self.publish(5)
        self.read()
        world.cut("a", "b", refuse=True)

    def publish(self, count: int) -> None:
        for _ in range(count):
            self.publisher.publish("asdi.zbw.tz", 700)
        self.world.run_until(lambda: not self.publisher.client.unacknowledged)

    def read(self, seconds: float = 1.0) -> list[int]:
        until = self.world.clock.seconds() + seconds
        while self.world.clock.seconds() < until:
            self.reader.read()
            self.world.run(0.5)
        return [number for _, _, number in map(name_of, self.reader.events)]


@pytest.mark.parametrize("cluster", ["c", "d"])
@pytest.mark.parametrize("seed", SEEDS)
def test_reader_at_another_node_gets_events_from_the_archive(seed: int, cluster: str) -> None:
    scenario = PartedNodes(seed, cluster=cluster)
    scenario.publish(700)
    scenario.world.run(5.0)
    scenario.world.kill("a")
    assert scenario.read(10.0) == list(range(1, 6))
    assert scenario.read(SILENCE) == list(range(1, 706))
    assert scenario.reader.gaps == [] and scenario.reader.error is None
    assert scenario.world.archive is not None
    assert len(scenario.world.archive.requests) == 1
    assert (
        recovery_snapshot(scenario.world["b"].recovery, scenario.world["b"].event_log)[
            "recoveries"
        ]["stood_in"]
        == 700
    )
    scenario.world.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_restarted_node_continues_after_recovery(seed: int) -> None:
    scenario = PartedNodes(seed)
    scenario.publish(20)
    scenario.world.run(5.0)
    scenario.world.kill("a")
    scenario.read(SILENCE)
    scenario.world.start("a")
    scenario.world.heal("a", "b")
    scenario.world.run_until(lambda: scenario.world.are_linked("a", "b"))
    scenario.publish(20)
    assert scenario.read(30.0) == list(range(1, 46))
    assert scenario.reader.gaps == []
    scenario.world.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_archive_is_not_read_if_nothing_is_missing(seed: int) -> None:
    scenario = PartedNodes(seed)
    scenario.world.run(5.0)
    scenario.world.kill("a")
    assert scenario.read(SILENCE) == list(range(1, 6))
    assert scenario.world.archive is not None and scenario.world.archive.requests == []
    scenario.world.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_archive_is_not_read_without_a_reader(seed: int) -> None:
    scenario = PartedNodes(seed)
    scenario.world.kill_client(scenario.reader.client)
    scenario.publish(20)
    scenario.world.run(SILENCE + 60.0)
    scenario.world.kill("a")
    scenario.world.run(SILENCE)
    assert scenario.world.archive is not None and scenario.world.archive.requests == []
    scenario.world.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_only_matching_events_are_logged(seed: int) -> None:
    scenario = PartedNodes(seed, INTERESTS[1])
    before = scenario.world["b"].event_log.bounds.last
    for altitude in (100, 700) * 15:
        scenario.publisher.publish("asdi.zbw.tz", altitude)
    scenario.world.run(5.0)
    scenario.world.kill("a")
    assert scenario.read(SILENCE) == [*range(1, 6), *range(7, 36, 2)]
    assert scenario.reader.gaps == []
    assert scenario.world["b"].event_log.bounds.last - before == 15
    scenario.world.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_unavailable_archive_is_asked_again(seed: int) -> None:
    scenario = PartedNodes(seed)
    scenario.publish(20)
    scenario.world.run(5.0)
    scenario.world.kill("a")
    archive = scenario.world.archive
    assert archive is not None
    archive.is_broken = True
    assert scenario.read(SILENCE) == list(range(1, 6))
    archive.is_broken = False
    assert scenario.read(SILENCE) == list(range(1, 26))
    scenario.world.close()


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_archived_events_of_a_node_that_had_no_links_arrive(seed: int, waits: bool) -> None:
    """The node restarted without its disk, logged events, and died for good."""
    scenario = PartedNodes(seed)
    world = scenario.world
    world.kill("a")
    world.lose_disk("a")
    if not waits:
        world.kill_client(scenario.reader.client)
    world.run(2.0)
    world.start("a")
    scenario.publish(20)
    world.run(5.0)
    world.kill("a")
    if not waits:
        scenario.reader = Reader(world, world.client("another", "b"))
        world.run_until(lambda: scenario.reader.is_flowing)
    assert scenario.read(SILENCE) == (list(range(1, 26)) if waits else [])
    assert scenario.reader.gaps == [] and scenario.reader.error is None
    world.close()
