from __future__ import annotations

from random import Random
from typing import Any, cast

import pytest

from broker.client.client import Client
from broker.client.merged import MergedEvent, MergedSubscription, Merging
from broker.client.received import ALL, STORED, Receipt, Start, since
from broker.event.envelope import EventLinkage, EventType, Order
from broker.event.merging.resolution import Row, resolve
from broker.event.place import Position
from broker.testing.simulation import World
from tests.seeds import seeds

FLIGHT = EventType("flight", "1.0")
PAYLOAD = b"<flight><id>UAL1</id><flightleg/></flight>"
PLANS, TRACKS = "asdi.zbw.fp", "asdi.zbw.tz"
LINKAGE = EventLinkage(
    time_constraint="within 200ms", merge_scheme="time", order=(Order(PLANS), Order(TRACKS))
)
MERGING = Merging(wait=1.0)


def publish(client: Client, stream: str, linkage: EventLinkage = LINKAGE) -> Any:
    return client.publish(stream, PAYLOAD, FLIGHT, linkage=linkage)


def merged(
    world: World, client: Client, *, durable: str = "", start: Start = ALL, streams: str = ">"
) -> MergedSubscription:
    subscription = world.wait(
        client.subscribe(streams=streams, durable=durable, start=start, merge=MERGING)
    )
    assert isinstance(subscription, MergedSubscription)
    return subscription


class Reader:
    def __init__(self, world: World, subscription: MergedSubscription) -> None:
        self.world = world
        self.subscription = subscription
        self.events: list[MergedEvent] = []

    def read(self, seconds: float = 0.0) -> None:
        end = self.world.clock.seconds() + seconds
        while True:
            while events := self.subscription.take_ready():
                self.events += cast("list[MergedEvent]", events)
            if self.world.clock.seconds() >= end:
                return
            self.world.run(0.05)

    @property
    def ids(self) -> list[str]:
        return [str(event.event_id) for event in self.events]


class FlightFeeds:
    def __init__(self, world: World, random: Random) -> None:
        self._world = world
        self._random = random
        self._clients = [world.client("plans"), world.client("radar")]
        self._receipts: list[Receipt] = []

    def run(self, seconds: float) -> None:
        world, (plans, radar) = self._world, self._clients
        end = world.clock.seconds() + seconds
        while world.clock.seconds() < end:
            for client, stream, rate in ((plans, PLANS, 0.3), (radar, TRACKS, 0.7)):
                if self._random.random() < rate:
                    publish(client, stream).addCallback(self._receipts.append)
            world.run(self._random.choice((0.01, 0.05, 0.2)))
        world.run_until(lambda: not plans.unacknowledged and not radar.unacknowledged)

    @property
    def ids(self) -> set[str]:
        return {str(receipt.event_id) for receipt in self._receipts}


def rows(events: list[MergedEvent]) -> list[Row]:
    return [Row(event.stream, event.event_id, LINKAGE) for event in events]


@pytest.mark.parametrize("seed", seeds(1, 10))
def test_live_events_arrive_in_resolved_order(seed: int) -> None:
    with World(seed, jitter=0.05) as world:
        reader = Reader(world, merged(world, world.client("reader")))
        feeds = FlightFeeds(world, Random(seed))
        feeds.run(5.0)
        reader.read(3.0)
        assert sorted(reader.ids) == sorted(feeds.ids)
        assert not any(event.late for event in reader.events)
        made = rows(reader.events)
        assert resolve(made) == list(range(len(made))), f"seed {seed}"
        # By place, the order is another one.
        places = [event.place.mark for event in reader.events]
        assert places != sorted(places)


@pytest.mark.parametrize("seed", seeds(1, 10))
def test_reader_killed_at_any_point_loses_nothing(seed: int) -> None:
    random = Random(seed)
    with World(seed, jitter=0.05) as world:
        client = world.client("reader")
        first = Reader(world, merged(world, client, durable="d", start=STORED))
        feeds = FlightFeeds(world, random)
        feeds.run(2.0)
        got: list[Reader] = [first]
        for incarnation in range(2, 6):
            got[-1].read(random.choice((0.0, 0.3, 0.8, 1.4)))
            world.kill_client(client)
            client = world.client("reader", incarnation=incarnation)
            got.append(Reader(world, merged(world, client, durable="d", start=STORED)))
            feeds.run(0.5)
        got[-1].read(3.0)
        for reader in got:
            assert len(set(reader.ids)) == len(reader.ids), f"twice in one process, seed {seed}"
        assert {each for reader in got for each in reader.ids} == feeds.ids, f"seed {seed}"
        made = rows([event for event in got[-1].events if not event.late])
        assert resolve(made) == list(range(len(made)))


@pytest.mark.parametrize("seed", seeds(1, 10))
def test_any_position_resumes_without_loss(seed: int) -> None:
    random = Random(seed)
    with World(seed, jitter=0.05) as world:
        subscription = merged(world, world.client("reader"))
        reader = Reader(world, subscription)
        feeds = FlightFeeds(world, random)
        feeds.run(3.0)
        taken: list[tuple[Position, set[str]]] = []
        for _ in range(12):
            taken.append((subscription.position, set(reader.ids)))
            events = subscription.take_ready()
            reader.events += cast("list[MergedEvent]", events)
            if events and random.random() < 0.5:
                subscription.processed(random.choice(events))
            world.run(random.choice((0.0, 0.3)))
        reader.read(3.0)
        assert set(reader.ids) == feeds.ids
        assert subscription.held == 0
        for number, (position, had) in enumerate(taken):
            again = Reader(world, merged(world, world.client(f"r{number}"), start=since(position)))
            again.read(2.0)
            assert had | set(again.ids) == feeds.ids, f"seed {seed}, {position}"


@pytest.mark.parametrize("seed", seeds(1, 10))
def test_broken_session_delivers_held_events_once(seed: int) -> None:
    random = Random(seed)
    with World(seed, jitter=0.05) as world:
        reader = Reader(world, merged(world, world.client("reader"), durable="d", start=STORED))
        feeds = FlightFeeds(world, random)
        for turn in range(6):
            feeds.run(0.6)
            reader.read(random.choice((0.0, 0.2)))
            if turn % 2:
                world.cut_client("reader")
            else:
                world.kill_node()
                world.run(0.3)
                world.start_node()
        reader.read(4.0)
        assert sorted(reader.ids) == sorted(feeds.ids), f"seed {seed}"


def test_feed_goes_on_when_another_feed_ends() -> None:
    with World(1) as world:
        radar = world.client("radar")
        reader = Reader(world, merged(world, world.client("reader")))
        delays: list[float] = []
        for _ in range(10):
            published = world.clock.seconds()
            world.wait(publish(radar, TRACKS))
            before = len(reader.events)
            while len(reader.events) == before:
                reader.read(0.05)
            delays.append(world.clock.seconds() - published)
        # The wait for flight plans, plus the tolerance of "concurrent".
        assert max(delays) < 1.0 + 0.2 + 0.2


def test_merge_waits_only_for_streams_of_the_pattern() -> None:
    with World(1) as world:
        plans = world.client("plans")
        reader = Reader(world, merged(world, world.client("reader"), streams=PLANS))
        world.wait(publish(plans, PLANS))
        reader.read(0.2)
        assert len(reader.events) == 1
