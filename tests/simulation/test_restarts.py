"""A client outlives its connections, its sessions and its node's processes."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pytest

from broker.client.received import Receipt
from broker.config import Settings
from broker.errors import LogUnavailable, NotConnected, ShuttingDown
from broker.testing.flights import INTERESTS
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulation import World
from tests.simulation.simulated_client import Reader, check_publishers, read_log


@pytest.fixture
def world() -> Iterator[World]:
    with World(1) as world:
        yield world


def settle(world: World, publisher: Publisher, *readers: Reader, seconds: float = 3.0) -> None:
    world.run_until(lambda: not publisher.client.unacknowledged)
    end = world.clock.seconds() + seconds
    while world.clock.seconds() < end:
        for reader in readers:
            reader.read()
        world.run(0.05)
    log = read_log(world)
    check_publishers(log, [publisher], [], world.seed)
    for reader in readers:
        reader.check(log)
    world.check_outcomes()


# ----------------------------------------------------------------------------- node


@pytest.mark.parametrize("moment", range(40))
def test_node_killed_at_any_moment_loses_and_duplicates_nothing(moment: int) -> None:
    with World(moment, thread_delay=0.01) as world:
        publisher = Publisher(world.client("publisher"))
        transient = Reader(world, world.client("reader"))
        durable = Reader(world, world.client("durable"), durable="d")
        world.run(1.0)
        for _ in range(3):
            for _ in range(5):
                publisher.publish()
            world.run(0.003)
        world.run(moment * 0.001)
        world.kill_node()
        publisher.publish()
        world.run(1.0)
        world.start_node()
        settle(world, publisher, transient, durable)
        assert len(read_log(world)) == 16


@pytest.mark.parametrize("moment", range(0, 40, 4))
def test_stopped_node_loses_and_duplicates_nothing(moment: int) -> None:
    with World(moment, thread_delay=0.01) as world:
        publisher = Publisher(world.client("publisher"))
        reader = Reader(world, world.client("reader"))
        durable = Reader(world, world.client("durable"), durable="d")
        reasons: list[object] = []
        publisher.client.on_state = lambda _, error: reasons.append(error)
        world.run(1.0)
        for _ in range(15):
            publisher.publish()
        world.run(moment * 0.001)
        world.stop_node()
        world.run(0.5)
        assert any(isinstance(reason, ShuttingDown) for reason in reasons)
        world.start_node()
        settle(world, publisher, reader, durable)
        assert len(read_log(world)) == 15


def test_accepted_events_are_acknowledged_as_duplicates_after_a_kill() -> None:
    # The de-duplication window is smaller than the number of repeated events.
    settings = Settings()
    settings = attrs.evolve(settings, log=attrs.evolve(settings.log, deduplication_window=16))
    with World(1, settings=settings, thread_delay=0.05) as world:
        publisher = Publisher(world.client("publisher"))
        world.run(1.0)
        for _ in range(3000):
            publisher.publish()
        while world.node.event_log._file.bounds.last < len(publisher.results) + 1000:
            world.run(0.001)
        answered = len(publisher.results)
        world.kill_node()
        world.start_node()
        durable = world.node.event_log.bounds.last
        assert answered + 1000 <= durable
        settle(world, publisher)
        assert len(read_log(world)) == 3000
        assert world.node.input.outcomes.duplicate == durable - answered
        assert sum(receipt.duplicate for receipt in publisher.receipts) == durable - answered


def test_outbox_is_bounded_and_sent_when_the_node_starts(world: World) -> None:
    world.kill_node()
    publisher = Publisher(world.client("publisher", outbox_events=10))
    for _ in range(10):
        publisher.publish()
    with pytest.raises(Exception, match="10 events"):
        publisher.publish()
    publisher.published -= 1
    world.run(20.0)
    assert publisher.results == []
    world.start_node()
    settle(world, publisher)
    numbers = [entry.header.event_id.sequence_number for entry in read_log(world)]
    assert numbers == list(range(1, 11))


def test_closing_a_client_fails_its_waiting_publications(
    world: World,
) -> None:
    world.kill_node()
    publisher = Publisher(world.client("publisher"))
    publisher.publish()
    world.run(1.0)
    world.wait(publisher.client.close())
    ((_, result),) = publisher.results
    assert not isinstance(result, Receipt) and result.code == "closed"
    world.run(10.0)
    assert world.pending_timers() == []


# ----------------------------------------------------------------------------- session


def short_leases() -> Settings:
    settings = Settings()
    return attrs.evolve(settings, limits=attrs.evolve(settings.limits, session_lease=2.0))


def test_session_resumes_within_its_lease() -> None:
    with World(1, settings=short_leases()) as world:
        publisher = Publisher(world.client("publisher"))
        reader = Reader(world, world.client("reader"))
        world.run(1.0)
        publisher.publish()
        world.run(1.0)
        (session,) = [s for s in world.node.acceptor.sessions if s.identity.client_id == "reader"]
        for seconds_away in (0.5, 10.0):
            address = world.client_address("reader")
            world.network.refuse(address)
            world.cut_client("reader")
            publisher.publish()
            world.run(seconds_away)
            world.network.heal(address)
            world.run(3.0)
            assert reader.client.connected
            assert session.has_ended is (seconds_away > 2.0)
        settle(world, publisher, reader)
        assert len(reader.events) == 3


@pytest.mark.parametrize("resumed", [True, False], ids=["resumed", "anew"])
def test_requests_made_offline_are_sent_on_the_next_connection(resumed: bool) -> None:
    with World(1, settings=short_leases()) as world:
        publisher = Publisher(world.client("publisher"))
        client = world.client("reader")
        left, kept = Reader(world, client), Reader(world, client, INTERESTS[4])
        forgotten = Reader(world, client, durable="forgotten")
        remembered = Reader(world, client, durable="remembered")
        world.run(1.0)
        publisher.publish()
        world.run(1.0)
        address = world.client_address("reader")
        world.network.refuse(address)
        world.cut_client("reader")
        world.run(0.1)
        assert not client.connected
        for reader, forget in ((left, False), (forgotten, True), (remembered, False)):
            assert reader.subscription is not None
            reader.read()
            reader.read()
            reader.subscription.unsubscribe(forget=forget)
            assert reader.subscription.over
        late = Reader(world, client)
        request = client.ask("dtd-list")
        world.run(0.5 if resumed else 10.0)
        world.network.heal(address)
        assert world.wait(request)
        publisher.publish("other")
        settle(world, publisher, kept, late)
        assert len(kept.events) == len(late.events) == 1
        session = next(s for s in world.node.acceptor.sessions if s.delivery.feeds)
        assert len(list(session.delivery.feeds)) == 2, "the node still feeds what nobody wants"
        assert world.node.durables.get("reader", "forgotten") is None
        stored = world.node.durables.get("reader", "remembered")
        assert stored is not None
        if resumed:
            assert [offset for _, offset in stored.position.marks.values()] == [1]


@pytest.mark.parametrize("forget", [True, False])
def test_unsubscription_survives_the_death_of_the_node(forget: bool) -> None:
    with World(1) as world:
        publisher = Publisher(world.client("publisher"))
        client = world.client("reader")
        left = Reader(world, client, durable="d")
        world.run(1.0)
        publisher.publish()
        world.run(1.0)
        assert left.subscription is not None
        left.subscription.unsubscribe(forget=forget)
        world.kill_node()
        world.start_node()
        world.run(5.0)
        assert left.subscription.over
        assert not [s for s in world.node.acceptor.sessions if list(s.delivery.feeds)]
        assert (world.node.durables.get("reader", "d") is None) is forget


def test_positions_processed_offline_are_sent_on_the_next_connection(world: World) -> None:
    publisher = Publisher(world.client("publisher"))
    reader = Reader(world, world.client("reader"), durable="d")
    world.run(1.0)
    publisher.publish()
    world.run(1.0)
    address = world.client_address("reader")
    world.network.refuse(address)
    world.cut_client("reader")
    world.run(0.1)
    reader.read()
    reader.read()
    world.run(2.0)
    world.network.heal(address)
    world.run(3.0)
    stored = world.node.durables.get("reader", "d")
    assert stored is not None and [offset for _, offset in stored.position.marks.values()] == [1]


def test_client_starts_a_new_session_after_an_inconsistent_delivery(world: World) -> None:
    publisher = Publisher(world.client("publisher"))
    reader = Reader(world, world.client("reader"))
    world.run(1.0)
    for _ in range(3):
        publisher.publish()
    world.run(1.0)
    (session,) = [s for s in world.node.acceptor.sessions if s.identity.client_id == "reader"]
    # As if a delivery had been lost.
    session.delivery._sender._previous = (world.node.event_log.origin, 1, 2)
    for _ in range(3):
        publisher.publish()
    settle(world, publisher, reader)
    assert session.has_ended
    assert len(reader.events) == 6
    assert reader.client.connected


# ----------------------------------------------------------------------------- disk


def test_full_disk_stops_acknowledgements_and_loses_nothing(world: World) -> None:
    publisher = Publisher(world.client("publisher"))
    reader = Reader(world, world.client("reader"))
    troubles: list[object] = []
    publisher.client.on_trouble = troubles.append
    world.run(1.0)
    world.disk.is_full = True
    for _ in range(50):
        publisher.publish()
        world.run(0.1)
    assert publisher.results == []
    assert isinstance(publisher.client.trouble, LogUnavailable)
    assert world.node.input.outcomes.not_taken > 0
    world.check_outcomes()
    world.disk.is_full = False
    settle(world, publisher, reader)
    assert publisher.client.trouble is None
    assert len(reader.events) == 50
    assert [type(trouble) for trouble in troubles] == [LogUnavailable, type(None)]


def test_answers_from_before_a_cut_are_ignored_after_it(world: World) -> None:
    # The client gets the first answer before the cut.
    for step in range(30):
        with World(step, latency=0.05) as world:
            publisher = Publisher(world.client("publisher"))
            world.run(1.0)
            world.disk.is_full = True
            for _ in range(6):
                publisher.publish()
                world.run(0.02)
            world.run(0.05 + step * 0.005)
            address = world.client_address("publisher")
            world.network.refuse(address)
            world.cut_client("publisher")
            world.disk.is_full = False
            world.run(2.0)
            world.network.heal(address)
            settle(world, publisher, seconds=0.5)
            assert len(read_log(world)) == 6
            assert not isinstance(publisher.client.last_error, NotConnected)
