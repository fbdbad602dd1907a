"""The same event at two nodes is delivered once: EventIds tell (A22, T38)."""

from __future__ import annotations

import attrs
import pytest

from broker.client.received import ALL, STORED, since
from broker.config import Settings
from broker.testing.simulated_network import NetworkWorld
from tests.log.damaging import damage_log, flipped
from tests.seeds import seeds
from tests.simulation.network.watching import (
    Publisher,
    Reader,
    check_results,
    name_of,
    read,
    truths,
)


@pytest.mark.parametrize("seed", seeds(4, 12))
def test_a_publisher_that_goes_to_another_node_is_heard_once(seed: int) -> None:
    with NetworkWorld(seed, thread_delay=0.02) as world:
        world.add("a", "one")
        world.add("b", "one", join=["a"])
        world.add("c", "two", gateways=["a", "b"])
        world.run(3.0)
        client = world.client("publisher", "a", "b")
        publisher = Publisher(world, client)
        # A reader at b would bring the events there, and b would know them.
        readers = [Reader(world, world.client(f"reader{number}", "c")) for number in range(2)]
        world.run(2.0)
        # They are logged at a when the client has not heard so.
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
        logs = truths(world)
        check_results([publisher], logs, seed)
        # Some were logged twice, or this shows nothing.
        assert sum(map(len, logs.values())) > 60
        assert world.network_of("c").driver.relay_ingest.outcomes.duplicate > 0
        world.check_outcomes()


def test_the_second_place_of_an_event_is_not_passed_where_the_first_can_not_be_read() -> None:
    with NetworkWorld(3, archived=True) as world:
        assert world.archive is not None
        world.add("a", "one")
        world.add("b", "two", gateways=["a"])
        world.add("c", "two", join=["b"])
        world.run(3.0)
        publisher = Publisher(world, world.client("publisher", "a", "b"))
        away = world.client("reader", "a")
        reader = Reader(world, away, durable="d")
        world.run_until(lambda: reader.flowing)
        publisher.publish()
        read(world, reader)
        world.kill_client(away)
        # One event is lost to damage before it is archived.
        world.archive.is_broken = True
        publisher.publish()
        world.run_until(lambda: not publisher.client.unacknowledged)
        damage_log(world["a"].event_log._file, "events", lambda v: flipped(v, 8 * len(v) - 99), 1)
        # Those behind it are logged at `a`, and at `b` too; `a` leaves out what `b` sends of them.
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
        # Who reads it finds the damage, and that nobody else has the event.
        other = Reader(world, world.client("other", "a"), start=ALL)
        read(world, other, seconds=120.0)
        assert [(gap.first.offset, gap.last.offset) for gap in other.gaps] == [(2, 2)]
        # Its user comes to a node that asks `a` first, and goes on to another one.
        moved = world.client("reader", "c", incarnation=2)
        first = Reader(world, moved, durable="d", start=STORED)
        world.run_until(lambda: first.flowing)
        read(world, first, seconds=1.0)
        world.kill_client(moved)
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


def test_an_event_that_its_client_had_does_not_come_again_from_the_archive() -> None:
    """Its second place is at a node that is gone, so that only the archive has it there."""
    with NetworkWorld(5, archived=True) as world:
        world.add("a", "one")
        world.add("b", "one", join=["a"])
        world.add("c", "two", gateways=["a"])
        world.run(3.0)
        publisher = Publisher(world, world.client("publisher", "a", "b"))
        away = world.client("reader", "c")
        before = Reader(world, away)
        world.run_until(lambda: before.flowing)
        world.network.set_delay(world.client_address("a", "publisher"), 0.3)
        for _ in range(5):
            publisher.publish()
        read(world, before, seconds=0.5)
        assert len(before.events) == 5
        assert before.subscription is not None
        position = before.subscription.position
        world.kill_client(away)
        # It has no receipt, and sends them again to another node, which has not heard of them.
        world.network.refuse(world.client_address("a", "publisher"))
        world.cut_client("publisher")
        publisher.publish()
        world.run_until(lambda: not publisher.client.unacknowledged)
        world.run(30.0)
        assert [len(logged) for logged in truths(world).values()].count(6) == 1
        world.stop("b")
        after = Reader(world, world.client("reader", "c", incarnation=2), start=since(position))
        read(world, after, seconds=120.0)
        assert [name_of(event) for event in after.events] == [("publisher", 1, 6)]
        assert after.gaps == []


def test_what_is_remembered_of_publishers_is_bounded() -> None:
    settings = Settings()
    settings = attrs.evolve(settings, log=attrs.evolve(settings.log, deduplication_window=16))
    with NetworkWorld(1) as world:
        for name, join in (("a", []), ("b", ["a"])):
            world.add(name, "one", join=join, settings=settings)
        world.run(3.0)
        publisher = Publisher(world, world.client("publisher", "a"))
        reader = Reader(world, world.client("reader", "b"))
        world.run(2.0)
        for _ in range(500):
            publisher.publish()
        world.run_until(lambda: not publisher.client.unacknowledged)
        read(world, reader, seconds=5.0)
        assert len(reader.events) == 500
