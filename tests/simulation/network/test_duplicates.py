"""An event that two nodes log is delivered once, by its EventId (A22, T38)."""

from __future__ import annotations

import attrs
import pytest

from broker.client.received import ALL, STORED, since
from broker.config import Settings
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, name_of, read, read_logs
from tests.log.bit_damage import damage_log, flipped
from tests.seeds import seeds
from tests.simulation.network.simulated_client import check_results


@pytest.mark.parametrize("seed", seeds(2, 12))
def test_events_resent_to_another_node_are_delivered_once(seed: int) -> None:
    with NetworkWorld(seed, thread_delay=0.02) as world:
        world.add("a", "one")
        world.add("b", "one", join=["a"])
        world.add("c", "two", gateways=["a", "b"])
        world.run(3.0)
        client = world.client("publisher", "a", "b")
        publisher = Publisher(client)
        # A reader at `b` would bring the events there.
        readers = [Reader(world, world.client(f"reader{number}", "c")) for number in range(2)]
        world.run(2.0)
        world.network.set_delay(world.client_address("a", "publisher"), 0.3)
        for _ in range(30):
            publisher.publish()
            world.run(0.005)
        world.run(world.random.uniform(0.25, 0.4))
        world.network.refuse(world.client_address("a", "publisher"))
        world.cut_client("publisher")
        for _ in range(30):
            publisher.publish()
        world.run_until(lambda: not client.unacknowledged)
        read(world, *readers, seconds=10.0)
        for reader in readers:
            names = [name_of(event) for event in reader.events]
            assert sorted(names) == [("publisher", 1, number) for number in range(1, 61)]
            assert reader.gaps == []
        logs = read_logs(world)
        check_results([publisher], logs, seed)
        # Without events logged twice the test would prove nothing.
        assert sum(map(len, logs.values())) > 60
        assert world.network_of("c").driver.relay_ingest.outcomes.duplicate > 0
        world.check_outcomes()


def test_second_place_of_an_event_replaces_an_unreadable_first_place() -> None:
    with NetworkWorld(3, archived=True) as world:
        assert world.archive is not None
        world.add("a", "one")
        world.add("b", "two", gateways=["a"])
        world.add("c", "two", join=["b"])
        world.run(3.0)
        publisher = Publisher(world.client("publisher", "a", "b"))
        reading_client = world.client("reader", "a")
        reader = Reader(world, reading_client, durable="d")
        world.run_until(lambda: reader.is_flowing)
        publisher.publish()
        read(world, reader)
        world.kill_client(reading_client)
        world.archive.is_broken = True
        publisher.publish()
        world.run_until(lambda: not publisher.client.unacknowledged)
        damage_log(world["a"].event_log._file, "events", lambda v: flipped(v, 8 * len(v) - 99), 1)
        # `a` drops the duplicates that `b` sends.
        world.network.set_delay(world.client_address("a", "publisher"), 0.3)
        for _ in range(5):
            publisher.publish()
        world.run(0.4)
        world.network.refuse(world.client_address("a", "publisher"))
        world.cut_client("publisher")
        for _ in range(5):
            publisher.publish()
        world.run_until(lambda: not publisher.client.unacknowledged)
        world.archive.is_broken = False
        # No other node has the event.
        other = Reader(world, world.client("other", "a"), start=ALL)
        read(world, other, seconds=120.0)
        assert [(gap.first.offset, gap.last.offset) for gap in other.gaps] == [(2, 2)]
        # The client moves to a node that asks `a`, then to another one.
        moved_client = world.client("reader", "c", incarnation=2)
        first = Reader(world, moved_client, durable="d", start=STORED)
        world.run_until(lambda: first.is_flowing)
        read(world, first, seconds=1.0)
        world.kill_client(moved_client)
        for _ in range(2):
            publisher.publish()
        world.run_until(lambda: not publisher.client.unacknowledged)
        assert first.subscription is not None
        last = Reader(world, world.client("last", "b"), start=since(first.subscription.position))
        read(world, last, seconds=120.0)
        assert last.error is None
        assert world.network_of("a").driver.relay_ingest.outcomes.duplicate == 5
        numbers = {e.header.event_id.sequence_number for e in [*first.events, *last.events]}
        assert numbers == set(range(3, 15))
        gaps = [*first.gaps, *last.gaps]
        assert {(gap.first.offset, gap.last.offset) for gap in gaps} == {(2, 2)}


def test_archive_repeats_no_event_that_the_client_had() -> None:
    """The second place is at a dead node; the archive has the event there."""
    with NetworkWorld(5, archived=True) as world:
        world.add("a", "one")
        world.add("b", "one", join=["a"])
        world.add("c", "two", gateways=["a"])
        world.run(3.0)
        publisher = Publisher(world.client("publisher", "a", "b"))
        reading_client = world.client("reader", "c")
        first_reader = Reader(world, reading_client)
        world.run_until(lambda: first_reader.is_flowing)
        world.network.set_delay(world.client_address("a", "publisher"), 0.3)
        for _ in range(5):
            publisher.publish()
        read(world, first_reader, seconds=0.5)
        assert len(first_reader.events) == 5
        assert first_reader.subscription is not None
        position = first_reader.subscription.position
        world.kill_client(reading_client)
        # The client sends them again, to a node that does not have them.
        world.network.refuse(world.client_address("a", "publisher"))
        world.cut_client("publisher")
        publisher.publish()
        world.run_until(lambda: not publisher.client.unacknowledged)
        world.run(30.0)
        assert [len(logged) for logged in read_logs(world).values()].count(6) == 1
        world.stop("b")
        second_reader = Reader(
            world, world.client("reader", "c", incarnation=2), start=since(position)
        )
        read(world, second_reader, seconds=120.0)
        assert [name_of(event) for event in second_reader.events] == [("publisher", 1, 6)]
        assert second_reader.gaps == []


def test_deduplication_state_is_bounded() -> None:
    settings = Settings()
    settings = attrs.evolve(settings, log=attrs.evolve(settings.log, deduplication_window=16))
    with NetworkWorld(1) as world:
        for name, join in (("a", []), ("b", ["a"])):
            world.add(name, "one", join=join, settings=settings)
        world.run(3.0)
        publisher = Publisher(world.client("publisher", "a"))
        reader = Reader(world, world.client("reader", "b"))
        world.run(2.0)
        for _ in range(500):
            publisher.publish()
        world.run_until(lambda: not publisher.client.unacknowledged)
        read(world, reader, seconds=5.0)
        assert len(reader.events) == 500
