from __future__ import annotations

from functools import partial

import attrs
import pytest

from broker.client.received import Gap
from broker.config import Settings
from broker.testing.flights import INTERESTS
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read, read_logs
from tests.seeds import seeds
from tests.simulation.network.simulated_client import settle

MIB = 1 << 20


def short_log() -> Settings:
    settings = Settings()
    return attrs.evolve(settings, log=attrs.evolve(settings.log, max_bytes=MIB))


def overflow_log(world: NetworkWorld, publisher: Publisher, count: int = 60) -> None:
    for _ in range(count):
        publisher.publish(size=50_000)
        world.run(0.05)
    world.run_until(lambda: not publisher.client.unacknowledged)


def bounds(gaps: list[Gap]) -> list[tuple[str, int, int, str]]:
    return [(gap.first.origin, gap.first.offset, gap.last.offset, gap.reason) for gap in gaps]


@pytest.mark.parametrize("seed", seeds(1, 3))
@pytest.mark.parametrize("far", [False, True], ids=["same cluster", "other cluster"])
def test_events_removed_during_a_partition_are_a_gap(seed: int, far: bool) -> None:
    with NetworkWorld(seed) as world:
        world.add("a", "one", settings=short_log())
        if far:
            world.add("b", "two", gateways=["a"])
        else:
            world.add("b", "one", join=["a"])
        world.run(2.0)
        publisher = Publisher(world.client("publisher", "a"))
        live = Reader(world, world.client("live", "b"))
        durable = Reader(world, world.client("durable", "b"), durable="d")
        process = world.client("away", "b")
        absent_reader = Reader(world, process, durable="d")
        world.run(3.0)
        publisher.publish()
        read(world, live, durable, absent_reader)
        assert [len(reader.events) for reader in (live, durable, absent_reader)] == [1, 1, 1]
        world.kill_client(process)
        logs = read_logs(world)
        world.cut("a", "b", refuse=True)
        overflow_log(world, publisher)
        logs = read_logs(world, logs)
        first = world["a"].event_log.bounds.first
        world.heal("a", "b")
        world.run(60.0)
        # If the acknowledgement was lost, the first event comes again.
        back = Reader(world, world.client("away", "b", incarnation=2), durable="d")
        publisher.publish()
        settle(world, [publisher], [live, durable, back], seen=logs)
        origin = world["a"].event_log.origin
        for reader in (live, durable, back):
            assert bounds(reader.gaps) == [(origin, 2, first - 1, "retention")]
        assert len(live.events) == 1 + 61 - (first - 2)


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_events_removed_while_the_node_was_down_are_a_gap(seed: int) -> None:
    with NetworkWorld(seed) as world:
        world.add("a", "one", settings=short_log())
        world.add("b", "two", gateways=["a"])
        world.run(2.0)
        publisher = Publisher(world.client("publisher", "a"))
        reader = Reader(world, world.client("reader", "b"), durable="d")
        world.run(3.0)
        publisher.publish()
        read(world, reader)
        logs = read_logs(world)
        world.kill("b")
        overflow_log(world, publisher)
        first = world["a"].event_log.bounds.first
        # The subscription flows before the node gets anything of the removed range.
        world.start("b")
        settle(world, [publisher], [reader], seconds=60.0, seen=logs)
        origin = world["a"].event_log.origin
        assert bounds(reader.gaps) == [(origin, 2, first - 1, "retention")]


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_client_at_another_node_gets_events_that_node_did_not_receive(seed: int) -> None:
    with NetworkWorld(seed) as world:
        world.add("a", "one")
        world.add("b", "one", join=["a"])
        world.add("c", "two", gateways=["a", "b"])
        world.run(2.0)
        publisher = Publisher(world.client("publisher", "c"))
        late_client = partial(world.client, first_wait=8.0, longest_wait=8.0)
        shared = Reader(world, late_client("shared", "a", "b"), INTERESTS[4])
        other = Reader(world, world.client("other", "b"), INTERESTS[4])
        alone = Reader(world, late_client("alone", "a", "b"), INTERESTS[1])
        world.run(3.0)
        for _ in range(10):
            publisher.publish("other")
            publisher.publish("asdi.zbw.tz")
        read(world, shared, other, alone)
        world.kill("a")
        read(world, shared, other, alone)
        for _ in range(5):
            publisher.publish("other")
            publisher.publish("asdi.zbw.tz")
            world.run(0.2)
        read(world, shared, other, alone, seconds=10.0)
        assert shared.client.connected and alone.client.connected
        publisher.publish("other")
        publisher.publish("asdi.zbw.tz")
        settle(world, [publisher], [shared, other, alone])
        for reader in (shared, other, alone):
            # The log had some events of `shared`, and none of `alone`.
            assert len(reader.events) == 16
            assert reader.gaps == []


@pytest.mark.parametrize("seed", seeds(1, 3))
@pytest.mark.parametrize("durable", ["", "d"])
def test_client_gets_missed_events_when_its_node_meets_the_origin_later(
    seed: int, durable: str
) -> None:
    with NetworkWorld(seed) as world:
        world.add("a", "one")
        world.add("b", "two", gateways=["a"])
        world.run(2.0)
        publisher = Publisher(world.client("publisher", "a"))
        reader = Reader(world, world.client("reader", "b"), durable=durable)
        world.run(3.0)
        publisher.publish()
        read(world, reader)
        world.cut("a", "b", refuse=True)
        world.kill("b")
        world.lose_disk("b")
        world.start("b")
        # The node has no links.
        read(world, reader, seconds=10.0)
        for _ in range(5):
            publisher.publish()
        world.run(2.0)
        world.heal("a", "b")
        world.run(40.0)
        publisher.publish()
        settle(world, [publisher], [reader])
        # The position names the origin, so the node starts there.
        assert [each.event_id.sequence_number for each in reader.events] == [*range(1, 8)]
        assert reader.gaps == []


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_client_at_a_node_that_is_behind_gets_nothing_twice(seed: int) -> None:
    with NetworkWorld(seed) as world:
        world.add("a", "one")
        world.add("b", "one", join=["a"])
        world.run(2.0)
        publisher = Publisher(world.client("publisher", "a"))
        reader = Reader(world, world.client("reader", "a", "b"))
        other = Reader(world, world.client("other", "b"))
        world.run(3.0)
        world.cut("a", "b", refuse=True)
        for _ in range(5):
            publisher.publish()
        read(world, reader)
        assert len(reader.events) == 5
        world.kill("a")
        read(world, reader, seconds=5.0)
        world.start("a")
        world.heal("a", "b")
        publisher.publish()
        settle(world, [publisher], [reader, other], seconds=60.0)
        assert len(reader.events) == len(other.events) == 6


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_durable_subscription_resumes_without_a_gap(seed: int) -> None:
    with NetworkWorld(seed) as world:
        world.add("a", "one")
        world.add("b", "two", gateways=["a"])
        world.run(2.0)
        publisher = Publisher(world.client("publisher", "a"))
        process = world.client("reader", "b")
        first = Reader(world, process, INTERESTS[1], durable="d")
        world.run(3.0)
        for number in range(60):
            publisher.publish()
            first.read()
            world.run(0.1)
            if number == 20:
                world.kill_client(process)
            if number == 30:
                world.kill("b")
            if number == 40:
                world.start("b")
        world.run(40.0)
        again = Reader(world, world.client("reader", "b", incarnation=2), INTERESTS[1], durable="d")
        publisher.publish()
        again.starts_after = first.starts_after
        world.run_until(lambda: again.is_flowing)
        read(world, again, seconds=5.0)
        assert first.gaps == again.gaps == []
        offsets = {event.place.offset for event in (*first.events, *again.events)}
        assert offsets == set(range(1, 62))
        assert len(again.events) == len({event.place for event in again.events})
