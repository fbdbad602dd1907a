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
