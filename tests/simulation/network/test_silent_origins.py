"""An origin's node is gone, and one node has got further with it than another one."""

from __future__ import annotations

import pytest

from broker.client.received import ALL
from broker.recovery.silent_origin import CHECK_INTERVAL
from broker.testing.simulated_network import NetworkWorld
from tests.seeds import seeds
from tests.simulation.network.test_lost_disks import guarded_and_short
from tests.simulation.network.watching import (
    INTERESTS,
    Interest,
    Publisher,
    Reader,
    name_of,
    read,
)

#: Until an origin counts as silent, other nodes are asked, and their pages are here.
LONG = 60.0 + 2 * CHECK_INTERVAL + 10.0


class Behind:
    """`c` is cut off when `a` publishes, and `a` dies before that is over; `b` has the events."""

    def __init__(
        self, seed: int, at_b: Interest = INTERESTS[0], *, cluster: str = "c", of_a: str = "c"
    ) -> None:
        self.world = world = NetworkWorld(seed)
        world.add("a", of_a)
        world.add("b", "c", **{"join" if of_a == "c" else "gateways": ["a"]})
        near = cluster == "c"
        world.add("c", cluster, join=["b"] if near else [], gateways=["b"] * (not near))
        world.run(4.0)
        self.publisher = Publisher(world, world.client("publisher", "a"))
        self.reader = Reader(world, world.client("reader", "c"))
        self.other = Reader(world, world.client("other", "b"), at_b)
        world.run_until(lambda: self.reader.flowing and self.other.flowing)
        self.publish(100, 700, 100, 700)
        self.read()
        self.origin = world["a"].event_log.origin
        world.cut("a", "c", refuse=True)
        world.cut("b", "c", refuse=True)
        self.publish(700, 100, 700, 700)
        world.run(1.0)
        world.kill("a")

    def publish(self, *altitudes: int) -> None:
        for altitude in altitudes:
            self.publisher.publish("asdi.zbw.tz", altitude)
        self.world.run_until(lambda: not self.publisher.client.unacknowledged)

    def meet(self) -> None:
        """All that are left can reach each other."""
        self.world.heal("b", "c")
        self.world.heal("a", "c")
        self.world.run_until(lambda: self.world.are_linked("b", "c"))

    def start_without_disk(self) -> None:
        """The node of the origin begins again, with a log of its own."""
        self.world.lose_disk("a")
        self.world.start("a")

    def read(self, seconds: float = 1.0) -> list[int]:
        """The sequence numbers of all that came to `c`."""
        until = self.world.clock.seconds() + seconds
        while self.world.clock.seconds() < until:
            self.reader.read()
            self.other.read()
            self.world.run(0.5)
        return [number for _, _, number in map(name_of, self.reader.events)]

    def gaps(self) -> list[tuple[int, int]]:
        """First and last offset of each gap at `c`."""
        assert all(gap.first.origin == self.origin for gap in self.reader.gaps)
        assert all(gap.reason == "lost" for gap in self.reader.gaps)
        return [(gap.first.offset, gap.last.offset) for gap in self.reader.gaps]


@pytest.mark.parametrize("cluster", ["c", "d"])
@pytest.mark.parametrize("seed", seeds(1, 4))
def test_another_node_has_the_last_events_of_a_lost_disk(seed: int, cluster: str) -> None:
    it = Behind(seed, cluster=cluster)
    it.world.lose_disk("a")
    it.meet()
    assert it.read(10.0) == [1, 2, 3, 4]
    assert it.read(LONG) == list(range(1, 9))
    assert it.reader.gaps == [] and it.reader.error is None
    it.world.close()


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_what_no_node_has_is_a_gap_once_no_node_has_that_log(seed: int) -> None:
    it = Behind(seed, INTERESTS[1])
    it.meet()
    assert it.read(LONG) == [1, 2, 3, 4, 5] and it.gaps() == [], "the disk of a may come back"
    it.start_without_disk()
    assert it.read(LONG) == [1, 2, 3, 4, 5, 7, 8]
    assert it.gaps() == [(6, 6)]
    it.world.close()


@pytest.mark.parametrize("cluster", ["c", "ship"])
@pytest.mark.parametrize("seed", seeds(1, 4))
def test_an_origin_that_comes_back_goes_on_behind_that(seed: int, cluster: str) -> None:
    """Long after the tables have forgotten a cluster of its own."""
    it = Behind(seed, INTERESTS[1], of_a=cluster)
    it.meet()
    assert it.read(5 * LONG) == [1, 2, 3, 4, 5]
    it.world.start("a")
    it.publish(700, 100)
    assert it.read(30.0) == list(range(1, 11))
    assert it.reader.gaps == [] and it.reader.error is None
    it.world.close()


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_the_origin_loses_its_disk_and_the_keeper_of_its_copies_is_set_back(seed: int) -> None:
    """A third node has got events by the live flow. Its reader wants only some of them."""
    with NetworkWorld(seed, settings=guarded_and_short()) as world:
        world.add("a", "c")
        world.add("b", "c", join=["a"])
        world.add("d", "d", gateways=["b"])
        world.run(4.0)
        publisher = Publisher(world, world.client("publisher", "a"))
        high = Reader(world, world.client("high", "d"), INTERESTS[1])
        reader = Reader(world, world.client("reader", "b", incarnation=1), durable="d")
        world.run_until(lambda: high.flowing and reader.flowing)
        for altitude in (700, 100):
            publisher.publish("asdi.zbw.tz", altitude)
        read(world, reader)
        world.kill("b")
        copy = world.copy_disk("b")
        world.start("b")
        world.run_until(lambda: world.are_linked("a", "b"))
        for altitude in (700, 100, 700):
            publisher.publish("asdi.zbw.tz", altitude)
        world.run_until(lambda: not publisher.client.unacknowledged)
        read(world, high)
        origin = world["a"].event_log.origin
        world.kill("a")
        world.kill("b")
        world.lose_disk("a")
        world.restore_disk("b", copy)
        world.start("a")
        world.start("b")
        late = Reader(world, world.client("late", "b"), start=ALL)
        read(world, late, seconds=2 * LONG)
        places = {event.place.offset for event in late.events if event.place.origin == origin}
        assert {1, 2, 3, 5} <= places and late.error is None
        gone = [n for gap in late.gaps for n in range(gap.first.offset, gap.last.offset + 1)]
        assert sorted({*places, *gone}) == [1, 2, 3, 4, 5] and len(gone) == 5 - len(places)


class Unarchived:
    """`a` publishes 1 to 8; the archive has 1 to 4 when `a` loses its disk and starts again.

    `b` has logged 1 to 8 or the higher ones of these, and `c` has logged 1 to 4 and 7."""

    def __init__(self, seed: int, at_b: Interest = INTERESTS[0]) -> None:
        self.world = world = NetworkWorld(seed, archived=True)
        for name, known in (("a", []), ("b", ["a"]), ("c", ["a", "b"])):
            world.add(name, "c", join=known)
        world.run(4.0)
        publisher = Publisher(world, world.client("publisher", "a"))
        readers = [
            Reader(world, world.client("b-reader", "b"), at_b),
            Reader(world, world.client("c-reader", "c"), INTERESTS[3]),
        ]
        world.run_until(lambda: all(each.flowing for each in readers))
        for altitude in (7, 7, 7, 7):
            publisher.publish("asdi.zbw.tz", altitude)
        read(world, *readers, seconds=10.0)
        for altitude in (600, 100, 7, 700):
            publisher.publish("asdi.zbw.tz", altitude)
        world.run_until(lambda: not publisher.client.unacknowledged)
        world.run(0.2)
        self.origin = world["a"].event_log.origin
        world.kill("a")
        world.lose_disk("a")
        world.start("a")
        world.run_until(lambda: world.are_linked("a", "b") and world.are_linked("a", "c"))

    def all_at(self, node: str) -> tuple[list[int], list[tuple[int, int, str]]]:
        """The offsets of the events, and the gaps, of one who wants all of the past."""
        late = Reader(self.world, self.world.client("late", node), start=ALL)
        read(self.world, late, seconds=LONG)
        assert late.error is None
        came = [event.place.offset for event in late.events if event.place.origin == self.origin]
        return came, [(gap.first.offset, gap.last.offset, gap.reason) for gap in late.gaps]


@pytest.mark.parametrize("node", ["a", "b", "c"])
@pytest.mark.parametrize("seed", seeds(1, 4))
def test_who_wants_all_gets_what_other_nodes_have_of_a_lost_log(seed: int, node: str) -> None:
    it = Unarchived(seed)
    assert it.all_at(node) == ([*range(1, 9)], [])
    it.world.close()


@pytest.mark.parametrize("node", ["a", "b", "c"])
@pytest.mark.parametrize("seed", seeds(1, 4))
def test_who_wants_all_is_told_what_no_node_has_of_a_lost_log(seed: int, node: str) -> None:
    it = Unarchived(seed, INTERESTS[1])
    assert it.all_at(node) == ([1, 2, 3, 4, 5, 7, 8], [(6, 6, "lost")])
    it.world.close()


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_who_wants_all_waits_for_a_log_that_is_out_of_sight(seed: int) -> None:
    """The reader's node has lost its disk, and does not know the origin."""
    with NetworkWorld(seed, archived=True) as world:
        world.add("a", "ship")
        world.add("b", "c", gateways=["a"])
        world.add("c", "c", join=["b"])
        world.run(4.0)
        publisher = Publisher(world, world.client("publisher", "a"))
        high = Reader(world, world.client("high", "b"), INTERESTS[1])
        world.run_until(lambda: high.flowing)
        for altitude in (700, 100):
            publisher.publish("asdi.zbw.tz", altitude)
        read(world, high, seconds=10.0)
        for altitude in (600, 100, 700):
            publisher.publish("asdi.zbw.tz", altitude)
        world.run_until(lambda: not publisher.client.unacknowledged)
        read(world, high, seconds=0.2)
        world.cut("a", "b", refuse=True)
        world.kill("a")
        world.kill("c")
        world.lose_disk("c")
        world.start("c")
        world.run(30.0)
        late = Reader(world, world.client("late", "c"), start=ALL)
        read(world, late, seconds=30.0)
        assert late.gaps == [], "the archive and this log are not all that there is"
        world.start("a")
        world.heal("a", "b")
        read(world, late, seconds=LONG)
        assert sorted(event.place.offset for event in late.events) == [1, 2, 3, 4, 5]
        assert late.gaps == [] and late.error is None
