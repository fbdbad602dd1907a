from __future__ import annotations

import pytest

from broker.client.received import STORED
from broker.config import Settings, StreamSettings
from broker.event.stream import StreamPattern
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read
from tests.log.bit_damage import damage_log, flipped

GUARDED = Settings(streams=(StreamSettings(StreamPattern.parse(">"), acknowledge="neighbour"),))
#: As fractions of a value: header, places, document.
WHERE = (0.005, 0.2, 0.97)


def damage(world: NetworkWorld, node: str, where: float, *, table: str = "events") -> int:
    """One bit in each chunk; return the number of chunks."""
    log = world[node].event_log._file
    with log._env.begin() as txn:
        count = int(txn.stat(log._env.open_db(table.encode()))["entries"])
    for nth in range(count):
        damage_log(
            log,
            table,
            lambda v: flipped(v, int(where * len(v)) * 8 + 3) if len(v) > 100 else v,
            nth,
        )
    return count


def publish(world: NetworkWorld, publisher: Publisher, count: int) -> None:
    for number in range(count):
        publisher.publish()
        if number % 4 == 3:
            world.run(0.1)
    world.run_until(lambda: not publisher.client.unacknowledged)


def add_absent_reader(
    world: NetworkWorld, node: str, publisher: Publisher, count: int = 12
) -> None:
    client = world.client("reader", node)
    reader = Reader(world, client, durable="d")
    world.run_until(lambda: reader.is_flowing)
    publish(world, publisher, 5)
    read(world, reader)
    assert [each.place.offset for each in reader.events] == [1, 2, 3, 4, 5]
    world.kill_client(client)
    publish(world, publisher, count)
    world.run(4.0)


def resume_reader(world: NetworkWorld, node: str, seconds: float = 90.0) -> Reader:
    reader = Reader(world, world.client("reader", node, incarnation=2), durable="d", start=STORED)
    read(world, reader, seconds=seconds)
    assert reader.error is None, reader.error
    return reader


def check_repaired(world: NetworkWorld, node: str, reader: Reader, last: int = 17) -> None:
    assert [each.place.offset for each in reader.events] == list(range(6, last + 1))
    assert reader.gaps == []
    repairs = world[node].event_log.repairs
    assert repairs.counts["repaired"] == repairs.counts["found"] > 0 and not repairs.given_up
    again = world.wait(world[node].event_log.read(1, 999, 1 << 30))
    assert [each.serial for each in again] == list(range(1, again[-1].serial + 1))


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("alone", [True, False])
def test_damaged_event_without_a_copy_is_a_gap(where: float, alone: bool) -> None:
    with NetworkWorld(1) as world:
        world.add("a", "one")
        if not alone:
            world.add("b", "one", join=["a"])
        world.run(3.0)
        publisher = Publisher(world.client("publisher", "a"))
        world.run(0.5)
        add_absent_reader(world, "a", publisher)
        assert damage(world, "a", where) > 3
        reader = resume_reader(world, "a")
        got = {each.place.offset for each in reader.events}
        reported = {
            offset for gap in reader.gaps for offset in range(gap.first.offset, gap.last.offset + 1)
        }
        assert got | reported == set(range(6, 18)) and not got & reported
        assert reported and {gap.reason for gap in reader.gaps} == {"damaged"}
        assert all((each.payload or b"").startswith(b"<") for each in reader.events)
        publish(world, publisher, 2)
        read(world, reader)
        assert [each.place.offset for each in reader.events][-2:] == [18, 19]
        assert world[("a")].event_log.repairs.counts["given_up"] > 0
        world.check_outcomes()


@pytest.mark.parametrize("where", WHERE)
def test_origin_repairs_from_its_replica(where: float) -> None:
    with NetworkWorld(2) as world:
        world.add("a", "one", settings=GUARDED)
        world.add("b", "one", join=["a"])
        world.run(3.0)
        publisher = Publisher(world.client("publisher", "a"))
        world.run(0.5)
        add_absent_reader(world, "a", publisher)
        damage(world, "a", where)
        check_repaired(world, "a", resume_reader(world, "a"))


@pytest.mark.parametrize("where", WHERE)
def test_origin_repairs_from_a_subscribed_node(where: float) -> None:
    with NetworkWorld(3) as world:
        world.add("a", "one")
        world.add("b", "one", join=["a"])
        world.run(3.0)
        other = Reader(world, world.client("other", "b"))
        world.run_until(lambda: other.is_flowing)
        publisher = Publisher(world.client("publisher", "a"))
        world.run(0.5)
        add_absent_reader(world, "a", publisher)
        damage(world, "a", where)
        check_repaired(world, "a", resume_reader(world, "a"))


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("origin", ["there", "back", "archived"])
def test_subscribed_node_repairs_from_origin_or_archive(where: float, origin: str) -> None:
    with NetworkWorld(4, archived=origin == "archived") as world:
        world.add("a", "one")
        world.add("b", "one", join=["a"])
        world.run(3.0)
        publisher = Publisher(world.client("publisher", "a"))
        world.run(0.5)
        add_absent_reader(world, "b", publisher)
        damage(world, "b", where)
        if origin == "archived":
            world.kill("a")
            world.lose_disk("a")
        elif origin == "back":
            world.kill("a")
            world.clock.callLater(20.0, world.start, "a")
        world.run(1.0)
        check_repaired(world, "b", resume_reader(world, "b", seconds=120.0))


@pytest.mark.parametrize("where", WHERE)
def test_node_that_was_cut_off_gets_repaired_events(where: float) -> None:
    with NetworkWorld(5) as world:
        world.add("a", "one")
        world.add("b", "one", join=["a"])
        world.add("c", "two", gateways=["a"])
        world.run(3.0)
        near = Reader(world, world.client("near", "b"))
        far = Reader(world, world.client("far", "c"))
        world.run_until(lambda: near.is_flowing and far.is_flowing)
        publisher = Publisher(world.client("publisher", "a"))
        world.run(0.5)
        publish(world, publisher, 4)
        world.cut("a", "c", refuse=True)
        # The link ends, and its queue with it.
        publish(world, publisher, 12)
        world.run(30.0)
        damage(world, "a", where)
        world.heal("a", "c")
        publish(world, publisher, 1)
        read(world, far, seconds=60.0)
        assert [each.place.offset for each in far.events] == list(range(1, 18)) and not far.gaps
        assert world["a"].event_log.repairs.counts["repaired"] > 0
        world.check_outcomes()


@pytest.mark.parametrize("where", WHERE)
def test_node_that_was_cut_off_gets_a_gap_for_damaged_events(where: float) -> None:
    with NetworkWorld(6) as world:
        world.add("a", "one")
        world.add("c", "two", gateways=["a"])
        world.run(3.0)
        far = Reader(world, world.client("far", "c"))
        world.run_until(lambda: far.is_flowing)
        publisher = Publisher(world.client("publisher", "a"))
        world.run(0.5)
        publish(world, publisher, 4)
        world.cut("a", "c", refuse=True)
        # The link ends, and its queue with it.
        publish(world, publisher, 12)
        world.run(30.0)
        damage(world, "a", where)
        world.heal("a", "c")
        publish(world, publisher, 1)
        read(world, far, seconds=200.0)
        got = {each.place.offset for each in far.events}
        reported = {o for gap in far.gaps for o in range(gap.first.offset, gap.last.offset + 1)}
        assert got | reported == set(range(1, 18)), (got, reported)
        assert 17 in got and reported


@pytest.mark.parametrize("where", WHERE)
def test_damaged_replica_is_repaired_from_its_origin_or_the_archive(where: float) -> None:
    with NetworkWorld(7, archived=True) as world:
        world.add("owner", "c", settings=GUARDED)
        world.add("keeper", "c", join=["owner"])
        world.add("zone", "far", gateways=["keeper"])
        world.run(3.0)
        reader = Reader(world, world.client("reader", "zone"))
        publisher = Publisher(world.client("publisher", "owner"))
        world.run_until(lambda: reader.is_flowing)
        world.cut("keeper", "zone", refuse=True)
        publish(world, publisher, 12)
        world.run(5.0)
        damage(world, "keeper", where, table="kept")
        world.kill("owner")
        world.lose_disk("owner")
        world.heal("keeper", "zone")
        read(world, reader, seconds=120.0)
        assert [each.place.offset for each in reader.events] == list(range(1, 13))
        assert reader.gaps == []
