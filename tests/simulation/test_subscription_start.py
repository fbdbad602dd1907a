from __future__ import annotations

from collections.abc import Iterator

import attrs
import pytest

from broker.client.received import ALL, NEW, STORED, Start, since, since_time
from broker.config import Settings
from broker.errors import BadPosition, BadQuery, TooManySessions
from broker.event.envelope import Liveness
from broker.event.place import Position
from broker.node.node import MAINTENANCE_INTERVAL
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulation import World
from tests.simulation.simulated_client import Reader, offsets, publish, read, read_log


@pytest.fixture
def world() -> Iterator[World]:
    with World(1) as world:
        yield world


# ----------------------------------------------------------------------------- starts


def test_each_start_begins_at_its_place(world: World) -> None:
    publisher = Publisher(world.client("publisher"))
    client = world.client("reader")
    publish(world, publisher, 10)
    world.run(5.0)
    middle = world.wall_clock()
    publish(world, publisher, 10)
    origin, epoch = world.node.event_log.origin, world.node.event_log.bounds.epoch
    starts = {
        "new": NEW,
        "all": ALL,
        "position": since(Position({origin: (epoch, 5)})),
        "a position elsewhere": since(Position({"another": (9, 9)})),
        "time": since_time(middle),
        "a position elsewhere, after a time": Start("position", Position({"x": (9, 9)}), middle),
        "a position here, and a time": Start("position", Position({origin: (epoch, 5)}), middle),
        "long ago": since_time(0),
        "the future": since_time(middle + 86_400_000),
        "stored, and nothing is": STORED,
    }
    readers = {name: Reader(world, client, start=start) for name, start in starts.items()}
    world.run(1.0)
    publish(world, publisher, 5)
    read(world, *readers.values())
    first = {name: offsets(reader)[0] for name, reader in readers.items()}
    assert first == {
        "new": 21,
        "all": 1,
        "position": 6,
        "a position elsewhere": 1,
        "time": 11,
        "a position elsewhere, after a time": 11,
        "a position here, and a time": 6,
        "long ago": 1,
        "the future": 21,
        "stored, and nothing is": 21,
    }
    for reader in readers.values():
        assert offsets(reader) == list(range(offsets(reader)[0], 26))
        assert not reader.wrong_liveness
        for event in reader.events:
            missed = event.place.offset <= 20
            assert event.liveness is (Liveness.RECOVERY if missed else Liveness.LIVE)
    world.check_outcomes()


def test_invalid_start_is_refused_with_its_reason(world: World) -> None:
    publisher = Publisher(world.client("publisher"))
    publish(world, publisher, 3)
    client = world.client("reader")
    origin = world.node.event_log.origin
    epoch = world.node.event_log.bounds.epoch
    future = Reader(world, client, start=since(Position({origin: (epoch, 4)})))
    later_epoch = Reader(world, client, start=since(Position({origin: (epoch + 1, 1)})))
    unknown = Reader(world, client, start=Start("yesterday"), durable="d")
    accepted_reader = Reader(world, client)
    world.run(1.0)
    assert isinstance(future.error, BadPosition) and f"{epoch}:4" in str(future.error)
    assert isinstance(later_epoch.error, BadPosition)
    assert isinstance(unknown.error, BadQuery) and "yesterday" in str(unknown.error)
    assert accepted_reader.subscription is not None
    assert world.node.durables.get("reader", "d") is None


def test_durable_subscription_resumes_where_its_last_process_ended(world: World) -> None:
    publisher = Publisher(world.client("publisher"))
    first = Reader(world, world.client("reader", incarnation=1), durable="d", start=ALL)
    publish(world, publisher, 10)
    read(world, first)
    world.kill_client(first.client)
    publish(world, publisher, 10)
    second = Reader(world, world.client("reader", incarnation=2), durable="d")
    read(world, second)
    assert offsets(second) == list(range(11, 21))
    assert {event.liveness for event in second.events} == {Liveness.RECOVERY}


def test_process_killed_before_its_first_position_loses_nothing(world: World) -> None:
    # The stored position is empty, before the first event.
    publisher = Publisher(world.client("publisher"))
    publish(world, publisher, 10)
    for incarnation in (1, 2, 3):
        client = world.client("reader", incarnation=incarnation)
        start = ALL if incarnation == 1 else STORED
        reader = Reader(world, client, durable="d", start=start)
        world.run(3.0)
        assert len(reader.arrivals) == 10, f"incarnation {incarnation}"
        assert reader.subscription is not None
        assert reader.subscription.position == Position()
        world.kill_client(client)


def test_arrived_but_unprocessed_events_come_again(world: World) -> None:
    publisher = Publisher(world.client("publisher"))
    first = Reader(world, world.client("reader", incarnation=1), durable="d")
    world.run(1.0)
    publish(world, publisher, 10)
    world.run(1.0)
    assert len(first.arrivals) == 10
    world.kill_node()
    world.start_node()
    world.run(5.0)
    world.kill_client(first.client)
    second = Reader(world, world.client("reader", incarnation=2), durable="d")
    read(world, second)
    assert offsets(second) == list(range(1, 11))


def test_accepted_durable_subscription_survives_an_immediate_kill(world: World) -> None:
    publisher = Publisher(world.client("publisher"))
    publish(world, publisher, 5)
    client = world.client("reader", incarnation=1)
    reader = Reader(world, client, durable="d")
    while reader.subscription is None:
        world.run(0.001)
    world.kill_node()
    world.kill_client(client)
    world.start_node()
    publish(world, publisher, 5)
    second = Reader(world, world.client("reader", incarnation=2), durable="d")
    read(world, second)
    assert offsets(second) == [6, 7, 8, 9, 10]


def test_durable_subscription_is_accepted_when_it_is_stored(world: World) -> None:
    client = world.client("reader")
    world.run(1.0)
    world.disk.is_full = True
    transient, durable = Reader(world, client), Reader(world, client, durable="d")
    world.run(5.0)
    assert transient.subscription is not None and durable.subscription is None
    world.disk.is_full = False
    world.run(3.0)
    assert durable.subscription is not None
    world.check_outcomes()


def test_forgotten_durable_subscription_starts_anew(world: World) -> None:
    publisher = Publisher(world.client("publisher"))
    client = world.client("reader")
    reader = Reader(world, client, durable="d")
    world.run(1.0)
    publish(world, publisher, 5)
    read(world, reader)
    assert reader.subscription is not None
    reader.subscription.unsubscribe(forget=True)
    world.run(1.0)
    assert world.node.durables.get("reader", "d") is None
    publish(world, publisher, 5)
    again = Reader(world, client, durable="d")
    world.run(1.0)
    publish(world, publisher, 5)
    read(world, again)
    assert offsets(again) == [11, 12, 13, 14, 15]


def test_unused_durable_subscription_expires() -> None:
    settings = Settings()
    log = attrs.evolve(settings.log, durable_expiry=600.0)
    with World(1, settings=attrs.evolve(settings, log=log)) as world:
        client = world.client("reader")
        Reader(world, client, durable="d")
        # Hours without an event, so without an acknowledgement either.
        world.run(3 * MAINTENANCE_INTERVAL)
        assert world.node.durables.get("reader", "d") is not None
        world.wait(client.close())
        world.run(2 * MAINTENANCE_INTERVAL)
        assert world.node.durables.get("reader", "d") is None


# ----------------------------------------------------------------------------- the cut


@pytest.mark.parametrize("start", [NEW, ALL, since_time(0)], ids=lambda start: start.kind)
def test_cut_holds_while_batches_are_committed(start: Start) -> None:
    for step in range(40):
        with World(step, thread_delay=0.02) as world:
            publisher = Publisher(world.client("publisher"))
            client = world.client("reader")
            world.run(1.0)
            for _ in range(5):
                publisher.publish()
                world.run(0.005)
            world.run(step * 0.001)
            reader = Reader(world, client, start=start)
            for _ in range(20):
                publisher.publish()
                world.run(0.005)
            read(world, reader, seconds=1.0)
            log = read_log(world)
            reader.check(log)
            assert len(log) == 25
            assert {e.place.mark for e in reader.events} >= {
                m.mark for m in log if m.mark > reader.cut
            }
            world.check_outcomes()


def test_cut_from_before_a_failed_commit_hides_no_event(world: World) -> None:
    publisher = Publisher(world.client("publisher"))
    client = world.client("reader")
    publish(world, publisher, 3)
    epoch = world.node.event_log.bounds.epoch
    world.disk.is_full = True
    for _ in range(10):
        publisher.publish()
    while not world.node.event_log.pending_bytes:
        world.run(0.0005)
    reader = Reader(world, client)
    while reader.subscription is None:
        world.run(0.0005)
    world.run(3.0)
    world.disk.is_full = False
    world.run_until(lambda: not publisher.client.unacknowledged)
    read(world, reader)
    # Their commit failed, and they came again.
    assert reader.cut[0] == epoch and offsets(reader) == list(range(4, 14))
    world.check_outcomes()


def test_cut_holds_during_the_first_commits_after_a_failed_one() -> None:
    with World(1, thread_delay=3.0) as world:
        publisher = Publisher(world.client("publisher"))
        client = world.client("reader")
        publish(world, publisher, 3)
        world.disk.is_full = True
        for _ in range(5):
            publisher.publish()
        world.run_until(lambda: world.node.event_log.failures == 1)
        world.disk.is_full = False
        later = (world.node.event_log.history_chain.histories[0].epoch + 1, 8)
        while world.node.event_log.own_end != later:
            world.run(0.01)
        readers = [Reader(world, client), Reader(world, client, start=ALL)]
        while not all(reader.subscription for reader in readers):
            world.run(0.01)
        assert world.node.event_log.bounds.last == 3
        world.run_until(lambda: not publisher.client.unacknowledged)
        publish(world, publisher, 2)
        read(world, *readers, seconds=30.0)
        assert readers[0].cut == later
        for reader in readers:
            reader.check(read_log(world))
        assert offsets(readers[0]) == [9, 10]
        world.check_outcomes()


def test_cut_holds_in_a_new_session_during_commits() -> None:
    with World(1, thread_delay=3.0) as world:
        publisher = Publisher(world.client("publisher"))
        client = world.client("reader")
        world.run(1.0)
        for _ in range(5):
            publisher.publish()
        while not world.node.event_log.pending_bytes:
            world.run(0.0005)
        reader = Reader(world, client)
        while reader.subscription is None:
            world.run(0.0005)
        assert reader.cut == (world.node.event_log.bounds.epoch, 5)
        (session,) = [s for s in world.node.acceptor.sessions if s.delivery.feeds]
        session.end(TooManySessions("for a moment"))
        world.run(0.5)
        # The five are not committed yet.
        assert client.connected and world.node.event_log.bounds.last == 0
        world.run_until(lambda: not publisher.client.unacknowledged)
        publisher.publish()
        world.run_until(lambda: not publisher.client.unacknowledged)
        read(world, reader)
        assert offsets(reader) == [6]


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_no_place_is_reused_after_failed_commits_and_a_restart(world: World, ending: str) -> None:
    publisher = Publisher(world.client("publisher"))
    client = world.client("reader")
    publish(world, publisher, 3)
    world.disk.is_full = True
    readers: list[Reader] = []
    for _ in range(4):
        # These events get no place that holds.
        for _ in range(5):
            publisher.publish()
        readers.append(Reader(world, client))
        world.run(2.0)
    assert world.node.event_log.failures >= 4
    world.kill_client(publisher.client)
    world.run(1.0)
    world.disk.is_full = False
    if ending == "stop":
        world.stop_node()
    else:
        world.kill_node()
    world.start_node()
    world.run(4.0)
    again = Publisher(world.client("publisher", incarnation=2))
    publish(world, again, 20)
    read(world, *readers)
    for reader in readers:
        assert reader.error is None
        assert offsets(reader) == list(range(4, 24)), f"after {reader.cut}"
        assert reader.subscription is not None and not reader.subscription.over
