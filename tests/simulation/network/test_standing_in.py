"""The archive stands in for a node that is gone, while nobody else has what it sent last (X6)."""

from __future__ import annotations

import pytest

from broker.recovery.archive_catch_up import CHECK_INTERVAL
from broker.recovery.snapshot import recovery_snapshot
from broker.testing.simulated_network import NetworkWorld
from tests.simulation.network.watching import INTERESTS, Interest, Publisher, Reader, name_of

SEEDS = range(4)
#: Until a node counts as gone, the archive is asked, and has answered.
LONG = 60.0 + 2 * CHECK_INTERVAL + 10.0


class Parted:
    """`b`, where a client reads, does not get events of `a`: the link breaks, then `a` dies."""

    def __init__(self, seed: int, interest: Interest = INTERESTS[0], *, cluster: str = "c") -> None:
        self.world = world = NetworkWorld(seed, archived=True)
        world.add("a", "c")
        world.add(
            "b", cluster, join=["a"] if cluster == "c" else [], gateways=["a"] * (cluster != "c")
        )
        world.run(4.0)
        self.publisher = Publisher(world, world.client("publisher", "a"))
        self.reader = Reader(world, world.client("reader", "b"), interest)
        world.run_until(lambda: self.reader.flowing)
        self.publish(5)
        self.read()
        world.cut("a", "b", refuse=True)

    def publish(self, count: int) -> None:
        for _ in range(count):
            self.publisher.publish("asdi.zbw.tz", 700)
        self.world.run_until(lambda: not self.publisher.client.unacknowledged)

    def read(self, seconds: float = 1.0) -> list[int]:
        """The sequence numbers of all that came."""
        until = self.world.clock.seconds() + seconds
        while self.world.clock.seconds() < until:
            self.reader.read()
            self.world.run(0.5)
        return [number for _, _, number in map(name_of, self.reader.events)]


@pytest.mark.parametrize("cluster", ["c", "d"])
@pytest.mark.parametrize("seed", SEEDS)
def test_who_reads_on_elsewhere_gets_what_only_the_archive_has(seed: int, cluster: str) -> None:
    it = Parted(seed, cluster=cluster)
    it.publish(700)
    it.world.run(5.0)
    it.world.kill("a")
    assert it.read(10.0) == list(range(1, 6))
    assert it.read(LONG) == list(range(1, 706))
    assert it.reader.gaps == [] and it.reader.error is None
    assert it.world.archive is not None
    assert len(it.world.archive.requests) == 1
    assert (
        recovery_snapshot(it.world["b"].recovery, it.world["b"].event_log)["recoveries"]["stood_in"]
        == 700
    )
    it.world.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_that_comes_back_goes_on_behind_that(seed: int) -> None:
    it = Parted(seed)
    it.publish(20)
    it.world.run(5.0)
    it.world.kill("a")
    it.read(LONG)
    it.world.start("a")
    it.world.heal("a", "b")
    it.world.run_until(lambda: it.world.are_linked("a", "b"))
    it.publish(20)
    assert it.read(30.0) == list(range(1, 46))
    assert it.reader.gaps == []
    it.world.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_archive_is_not_searched_for_a_node_that_has_sent_all(seed: int) -> None:
    it = Parted(seed)
    it.world.run(5.0)
    it.world.kill("a")
    assert it.read(LONG) == list(range(1, 6))
    assert it.world.archive is not None and it.world.archive.requests == []
    it.world.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_fetched_where_nobody_reads(seed: int) -> None:
    it = Parted(seed)
    it.world.kill_client(it.reader.client)
    it.publish(20)
    it.world.run(LONG + 60.0)
    it.world.kill("a")
    it.world.run(LONG)
    assert it.world.archive is not None and it.world.archive.requests == []
    it.world.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_only_what_is_wanted_is_logged(seed: int) -> None:
    it = Parted(seed, INTERESTS[1])
    before = it.world["b"].event_log.bounds.last
    for altitude in (100, 700) * 15:
        it.publisher.publish("asdi.zbw.tz", altitude)
    it.world.run(5.0)
    it.world.kill("a")
    assert it.read(LONG) == [*range(1, 6), *range(7, 36, 2)]
    assert it.reader.gaps == []
    assert it.world["b"].event_log.bounds.last - before == 15
    it.world.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_an_archive_that_is_away_is_asked_again(seed: int) -> None:
    it = Parted(seed)
    it.publish(20)
    it.world.run(5.0)
    it.world.kill("a")
    archive = it.world.archive
    assert archive is not None
    archive.is_broken = True
    assert it.read(LONG) == list(range(1, 6))
    archive.is_broken = False
    assert it.read(LONG) == list(range(1, 26))
    it.world.close()


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_that_was_never_linked_to_others_may_have_archived_something(
    seed: int, waits: bool
) -> None:
    """It came back without its disk, took events, and is gone for good."""
    it = Parted(seed)
    world = it.world
    world.kill("a")
    world.lose_disk("a")
    if not waits:
        world.kill_client(it.reader.client)
    world.run(2.0)
    world.start("a")
    it.publish(20)
    world.run(5.0)
    world.kill("a")
    if not waits:
        it.reader = Reader(world, world.client("another", "b"))
        world.run_until(lambda: it.reader.flowing)
    assert it.read(LONG) == (list(range(1, 26)) if waits else [])
    assert it.reader.gaps == [] and it.reader.error is None
    world.close()
