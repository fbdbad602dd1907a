"""An event's own time comes with the event by every way, and decides nothing in the network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from broker.archive.layout import hour_of
from broker.client.client import Client
from broker.client.subscription import Subscription
from broker.event.envelope import MAX_EVENT_TIME, EventType
from broker.testing.simulated_network import NetworkWorld

FLIGHT = EventType("flight", "1.0")
#: 1970, 2200, and the last one.
TIMES = (None, 0, 7_258_118_400_000, 5, None, MAX_EVENT_TIME)


@pytest.fixture
def world() -> Iterator[NetworkWorld]:
    with NetworkWorld(3, archived=True) as world:
        world.add("origin", "one")
        world.add("relay", "one", join=["origin"])
        world.add("far", "two", gateways=["origin", "relay"])
        world.run(2.0)
        yield world


def subscribe(world: NetworkWorld, client: Client, **more: Any) -> Subscription:
    subscription: Subscription = world.wait(client.subscribe(**more))
    return subscription


def publish(world: NetworkWorld, client: Client, time: int | None) -> None:
    text = b"<flight><id>%d</id><flightleg/></flight>" % (MAX_EVENT_TIME if time is None else time)
    outcome: list[Any] = []
    made: Any = client.publish("flights", text, FLIGHT, time=time)
    made.addBoth(outcome.append)
    world.run_until(lambda: bool(outcome))
    assert outcome[0].place is not None


def take(world: NetworkWorld, subscription: Any, count: int = len(TIMES)) -> list[int | None]:
    """Return the times of the next so many events, which nothing else interrupts."""
    found: list[Any] = []

    def is_complete() -> bool:
        found.extend(subscription.take_ready())
        return len(found) >= count

    world.run_until(is_complete)
    assert [str(each) for each in found if not hasattr(each, "payload")] == []
    return [event.time for event in found]


def take_all(world: NetworkWorld, replay: Any) -> list[int | None]:
    """Return the times of a replay's events."""
    found: list[Any] = []

    def is_complete() -> bool:
        found.extend(replay.take_ready())
        return bool(replay.over)

    world.run_until(is_complete)
    while items := replay.take_ready():
        found += items
    assert [str(each) for each in found if not hasattr(each, "payload")] == []
    return [event.time for event in found]


def test_relays_recoveries_replays_and_restarts_keep_the_time(world: NetworkWorld) -> None:
    publisher = world.client("publisher", "origin")
    live = [subscribe(world, world.client(f"at-{node}", node)) for node in world.names]
    rover = world.client("rover", "far", incarnation=1, key_seed=b"k" * 32)
    subscribe(world, rover, durable="d")
    world.run(1.0)
    world.kill_client(rover)
    for time in TIMES:
        publish(world, publisher, time)
    for reader in live:
        assert take(world, reader) == list(TIMES)
    world.run(20.0)
    for node in world.names:
        world.kill(node)
        world.start(node)
    world.run(5.0)
    rover = world.client("rover", "relay", incarnation=2, key_seed=b"k" * 32)
    assert take(world, subscribe(world, rover, durable="d")) == list(TIMES)
    assert take(world, rover.replay()) == list(TIMES)


def test_a_replay_by_time_takes_logs_and_the_archive(world: NetworkWorld) -> None:
    publisher = world.client("publisher", "origin")
    for time in TIMES:
        publish(world, publisher, time)
    readers = [world.client(f"at-{node}", node) for node in world.names]

    def check() -> None:
        for reader in readers:
            ends: dict[tuple[int, int], list[int | None]] = {
                (1, 0): [TIMES[2], 5, MAX_EVENT_TIME],
                (0, 6): [0, 5],
                (5, 6): [5],
                (6, 7): [],
            }
            for event_times, found in ends.items():
                assert take_all(world, reader.replay(event_times=event_times)) == found
            last = reader.replay(event_times=(0, MAX_EVENT_TIME), last=2)
            assert take_all(world, last) == [TIMES[2], 5]

    check()
    world.run(20.0)
    check()
    archive = world.archive
    assert archive is not None
    assert {(1, 0), (0, 6)} <= {request.event_times for request in archive.requests}


def test_a_replay_keeps_the_spacing_of_the_times(world: NetworkWorld) -> None:
    publisher = world.client("publisher", "origin")
    for time in (60_000, None, 180_000, 120_000, 7_258_118_400_000, 190_000, 200_000):
        publish(world, publisher, time)
    world.run(20.0)
    replay: Any = world.client("reader", "far").replay(pace=1.0, paced_by_time=True)
    seconds: list[float] = []
    began: float | None = None
    while len(seconds) < 7:
        world.run(0.5)
        while items := replay.take_ready():
            began = world.clock.seconds() if began is None else began
            seconds += [world.clock.seconds() - began] * len(items)
    assert seconds == pytest.approx([0, 0, 120, 120, 120, 120, 130], abs=1.0)


def test_a_time_changes_no_partition_no_hour_and_no_position(world: NetworkWorld) -> None:
    publisher = world.client("publisher", "origin")
    reader: Any = subscribe(world, world.client("reader", "far"))
    began = world.wall_clock()
    for time in TIMES:
        publish(world, publisher, time)
    world.run(20.0)
    events: list[Any] = []
    while items := reader.take_ready():
        events += items
    # Offsets rise one by one, and arrivals are those of the clock.
    marks = [event.place.mark for event in events]
    assert marks == [(marks[0][0], marks[0][1] + n) for n in range(len(TIMES))]
    archive = world.archive
    assert archive is not None
    files = list(archive.open().state().files.values())
    assert sum(file.rows for file in files) == len(TIMES)
    for file in files:
        least, greatest = file.arrivals
        assert began <= least <= greatest <= world.wall_clock()
        assert (file.hour, file.partition) == (hour_of(least), "flights")
