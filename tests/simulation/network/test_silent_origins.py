from __future__ import annotations

import pytest

from broker.client.received import ALL
from broker.recovery.silent_origin import CHECK_INTERVAL
from broker.testing.flights import INTERESTS, Interest
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, name_of, read
from tests.seeds import seeds
from tests.simulation.network.test_lost_disks import guarded_and_short

#: Seconds until other nodes are asked about a silent origin, and their pages have arrived.
SILENCE = 60.0 + 2 * CHECK_INTERVAL + 10.0


class LateNode:
    def __init__(
        self, seed: int, at_b: Interest = INTERESTS[0], *, cluster: str = "c", of_a: str = "c"
    ) -> None:
        self.world = world = NetworkWorld(seed)
        world.add("a", of_a)
        joins = of_a == "c"
        world.add("b", "c", join=["a"] * joins, gateways=["a"] * (not joins))
        near = cluster == "c"
        world.add("c", cluster, join=["b"] if near else [], gateways=["b"] * (not near))
        world.run(4.0)
        self.publisher = Publisher(world.client("publisher", "a"))
        self.reader = Reader(world, world.client("reader", "c"))
        self.other = Reader(world, world.client("other", "b"), at_b)
        world.run_until(lambda: self.reader.is_flowing and self.other.is_flowing)
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

    def heal(self) -> None:
        self.world.heal("b", "c")
        self.world.heal("a", "c")
        self.world.run_until(lambda: self.world.are_linked("b", "c"))

    def start_without_disk(self) -> None:
        self.world.lose_disk("a")
        self.world.start("a")

    def read(self, seconds: float = 1.0) -> list[int]:
        until = self.world.clock.seconds() + seconds
        while self.world.clock.seconds() < until:
            self.reader.read()
            self.other.read()
            self.world.run(0.5)
        return [number for _, _, number in map(name_of, self.reader.events)]

    def gaps(self) -> list[tuple[int, int]]:
        assert all(gap.first.origin == self.origin for gap in self.reader.gaps)
        assert all(gap.reason == "unreachable" for gap in self.reader.gaps)
        return [(gap.first.offset, gap.last.offset) for gap in self.reader.gaps]


@pytest.mark.parametrize("cluster", ["c", "d"])
@pytest.mark.parametrize("seed", seeds(1, 4))
def test_last_events_of_a_lost_disk_come_from_another_node(seed: int, cluster: str) -> None:
    scenario = LateNode(seed, cluster=cluster)
    scenario.world.lose_disk("a")
    scenario.heal()
    assert scenario.read(10.0) == [1, 2, 3, 4]
    assert scenario.read(SILENCE) == list(range(1, 9))
    assert scenario.reader.gaps == [] and scenario.reader.error is None
    scenario.world.close()


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_events_of_a_lost_log_are_a_gap_when_its_node_restarts_without_it(seed: int) -> None:
    scenario = LateNode(seed, INTERESTS[1])
    scenario.heal()
    assert scenario.read(SILENCE) == [1, 2, 3, 4, 5] and scenario.gaps() == [], (
        "the disk of a may come back"
    )
    scenario.start_without_disk()
    assert scenario.read(SILENCE) == [1, 2, 3, 4, 5, 7, 8]
    assert scenario.gaps() == [(6, 6)]
    scenario.world.close()


@pytest.mark.parametrize("cluster", ["c", "ship"])
@pytest.mark.parametrize("seed", seeds(1, 4))
def test_restarted_origin_continues_after_recovery(seed: int, cluster: str) -> None:
    """The origin's own cluster has left the tables."""
    scenario = LateNode(seed, INTERESTS[1], of_a=cluster)
    scenario.heal()
    assert scenario.read(5 * SILENCE) == [1, 2, 3, 4, 5]
    scenario.world.start("a")
    scenario.publish(700, 100)
    assert scenario.read(30.0) == list(range(1, 11))
    assert scenario.reader.gaps == [] and scenario.reader.error is None
    scenario.world.close()


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_origin_loses_its_disk_and_its_replica_is_restored_from_a_copy(seed: int) -> None:
    with NetworkWorld(seed, settings=guarded_and_short()) as world:
        world.add("a", "c")
        world.add("b", "c", join=["a"])
        world.add("d", "d", gateways=["b"])
        world.run(4.0)
        publisher = Publisher(world.client("publisher", "a"))
        high = Reader(world, world.client("high", "d"), INTERESTS[1])
        reader = Reader(world, world.client("reader", "b", incarnation=1), durable="d")
        world.run_until(lambda: high.is_flowing and reader.is_flowing)
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
        read(world, late, seconds=2 * SILENCE)
        places = {event.place.offset for event in late.events if event.place.origin == origin}
        assert {1, 2, 3, 5} <= places and late.error is None
        reported = [n for gap in late.gaps for n in range(gap.first.offset, gap.last.offset + 1)]
        assert sorted({*places, *reported}) == [1, 2, 3, 4, 5] and len(reported) == 5 - len(places)


class UnarchivedEvents:
    """`a` loses its disk when 1 to 4 of 8 events are archived; then it restarts.

    `b` has logged 1 to 8, or only the high ones; `c` has logged 1 to 4 and 7.
    """

    def __init__(self, seed: int, at_b: Interest = INTERESTS[0]) -> None:
        self.world = world = NetworkWorld(seed, archived=True)
        for name, known in (("a", []), ("b", ["a"]), ("c", ["a", "b"])):
            world.add(name, "c", join=known)
        world.run(4.0)
        publisher = Publisher(world.client("publisher", "a"))
        readers = [
            Reader(world, world.client("b-reader", "b"), at_b),
            Reader(world, world.client("c-reader", "c"), INTERESTS[3]),
        ]
        world.run_until(lambda: all(each.is_flowing for each in readers))
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

    def read_all_at(self, node: str) -> tuple[list[int], list[tuple[int, int, str]]]:
        """Return the offsets of events, and the gaps."""
        late = Reader(self.world, self.world.client("late", node), start=ALL)
        read(self.world, late, seconds=SILENCE)
        assert late.error is None
        received = [
            event.place.offset for event in late.events if event.place.origin == self.origin
        ]
        return received, [(gap.first.offset, gap.last.offset, gap.reason) for gap in late.gaps]


@pytest.mark.parametrize("node", ["a", "b", "c"])
@pytest.mark.parametrize("seed", seeds(1, 4))
def test_reader_of_all_events_gets_the_events_that_other_nodes_have(seed: int, node: str) -> None:
    scenario = UnarchivedEvents(seed)
    assert scenario.read_all_at(node) == ([*range(1, 9)], [])
    scenario.world.close()


@pytest.mark.parametrize("node", ["a", "b", "c"])
@pytest.mark.parametrize("seed", seeds(1, 4))
def test_reader_of_all_events_gets_a_gap_for_lost_events(seed: int, node: str) -> None:
    scenario = UnarchivedEvents(seed, INTERESTS[1])
    assert scenario.read_all_at(node) == ([1, 2, 3, 4, 5, 7, 8], [(6, 6, "unreachable")])
    scenario.world.close()


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_reader_of_all_events_waits_for_an_unreachable_log(seed: int) -> None:
    with NetworkWorld(seed, archived=True) as world:
        world.add("a", "ship")
        world.add("b", "c", gateways=["a"])
        world.add("c", "c", join=["b"])
        world.run(4.0)
        publisher = Publisher(world.client("publisher", "a"))
        high = Reader(world, world.client("high", "b"), INTERESTS[1])
        world.run_until(lambda: high.is_flowing)
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
        read(world, late, seconds=SILENCE)
        assert sorted(event.place.offset for event in late.events) == [1, 2, 3, 4, 5]
        assert late.gaps == [] and late.error is None
