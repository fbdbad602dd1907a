"""Slow subscribers with a queue policy: each event comes or is reported, as the policy says."""

from __future__ import annotations

import random
from collections.abc import Iterator

import attrs
import pytest

from broker.client.received import Gap, ReceivedEvent, since
from broker.config import Settings
from broker.errors import (
    BadQueuePolicy,
    BrokerError,
    QueueFull,
    TooManySubscriptions,
    VersionMismatch,
)
from broker.event.place import Position
from broker.node.metrics import NodeCollector
from broker.node.status import build_status
from broker.streams.queue_policy import MAX_KEY_PATHS
from broker.testing.flights import INTERESTS, altitude_of
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulation import World
from broker.wire.messages import PROTOCOL_VERSIONS
from tests.seeds import seeds
from tests.simulation.simulated_client import Reader, read_log
from tests.simulation.test_slow_subscribers import QUEUE, SLOW, publish_steadily, read_all

BY_ALTITUDE = "coalesce:/flight/flightleg/altitude"
POLICIES = ("drop-oldest", "drop-newest", "coalesce", BY_ALTITUDE, "block", "fail")


@pytest.fixture
def world() -> Iterator[World]:
    settings = Settings()
    settings = attrs.evolve(
        settings,
        limits=attrs.evolve(settings.limits, window_bytes=8_192),
        # A session with one named policy has two queues.
        queue=attrs.evolve(settings.queue, events=2 * QUEUE),
    )
    with World(1, settings=settings) as world:
        yield world


def publish_altitudes(world: World, publisher: Publisher, count: int, altitudes: int) -> None:
    for number in range(count):
        publisher.publish(altitude=number % altitudes)
        world.run(0.01)
    world.run_until(lambda: not publisher.client.unacknowledged)


def offsets(reader: Reader) -> list[int]:
    return [event.place.offset for event in reader.events]


def error_of(reader: Reader) -> BrokerError | None:
    return None if reader.subscription is None else reader.subscription._error


@pytest.mark.parametrize("queue", POLICIES[:-1])
def test_each_event_comes_or_is_reported(world: World, queue: str) -> None:
    publisher = Publisher(world.client("publisher"))
    reader = Reader(world, world.client("slow", window_bytes=SLOW), queue=queue)
    world.run(1.0)
    for _ in range(3):
        publish_altitudes(world, publisher, 200, 11)
        world.check_outcomes()
        read_all(world, reader, seconds=0.3)
    read_all(world, reader, seconds=10.0)
    reader.check(read_log(world))
    assert (queue == "block") is (reader.gaps == [])
    world.check_outcomes()


def test_drop_newest_keeps_the_first_events(world: World) -> None:
    publisher = Publisher(world.client("publisher"))
    reader = Reader(world, world.client("slow", window_bytes=SLOW), queue="drop-newest")
    world.run(1.0)
    publish_steadily(world, publisher, 300)
    read_all(world, reader)
    publish_steadily(world, publisher, 1)
    read_all(world, reader)
    reader.check(read_log(world))
    (gap,) = reader.gaps
    assert gap.reason == "slow"
    assert offsets(reader) == [*range(1, gap.first.offset), 301]
    assert (gap.last.offset, gap.count) == (300, 301 - gap.first.offset)


def test_coalescing_keeps_the_newest_event_of_each_key(world: World) -> None:
    publisher = Publisher(world.client("publisher"))
    reader = Reader(world, world.client("slow", window_bytes=SLOW), queue=BY_ALTITUDE)
    world.run(1.0)
    publish_altitudes(world, publisher, 300, 11)
    world.check_outcomes()
    read_all(world, reader)
    reader.check(read_log(world))
    # The queue is far from its bounds.
    (gap,) = reader.gaps
    assert gap.reason == "coalesced"
    assert gap.count == gap.last.offset - gap.first.offset + 1 > 200
    newest = {altitude_of(event.document): event.place.offset for event in reader.events}
    assert newest == {number % 11: number + 1 for number in range(289, 300)}
    assert offsets(reader)[-11:] == list(range(290, 301))


def test_coalescing_by_stream(world: World) -> None:
    publisher = Publisher(world.client("publisher"))
    reader = Reader(world, world.client("slow", window_bytes=SLOW), queue="coalesce")
    world.run(1.0)
    for number in range(200):
        publisher.publish("asdi.zbw.tz" if number % 10 else "other", altitude=number)
        world.run(0.01)
    read_all(world, reader)
    reader.check(read_log(world))
    assert {gap.reason for gap in reader.gaps} == {"coalesced"}
    assert [event.stream for event in reader.events][-2:] == ["other", "asdi.zbw.tz"]
    assert offsets(reader)[-2:] == [191, 200]


def test_a_session_lost_within_a_coalesced_queue_loses_nothing_else(world: World) -> None:
    """Gaps in the queue do not move the position past the events before them."""
    publisher = Publisher(world.client("publisher"))
    client = world.client("slow", window_bytes=SLOW)
    reader = Reader(world, client, queue=BY_ALTITUDE)
    world.run(1.0)
    # Rare keys stay in the queue between replaced events.
    for number in range(300):
        publisher.publish(altitude=1000 + number if number % 25 == 0 else number % 3)
        world.run(0.01)
    world.run_until(lambda: not publisher.client.unacknowledged)
    reader.read_one()
    world.run(0.5)
    rare_before = [e for e in reader.events if altitude_of(e.document) >= 1000]
    assert len(rare_before) < 12
    world.kill_node()
    world.start_node()
    world.run(5.0)
    read_all(world, reader, seconds=20.0)
    reader.check(read_log(world))
    rare = [altitude_of(e.document) for e in reader.events if altitude_of(e.document) >= 1000]
    assert rare == list(range(1000, 1300, 25))


def test_a_blocking_transient_subscriber_gets_everything_from_the_log(world: World) -> None:
    publisher = Publisher(world.client("publisher"))
    reader = Reader(world, world.client("slow", window_bytes=SLOW), queue="block")
    fast = Reader(world, world.client("fast"))
    world.run(1.0)
    publish_steadily(world, publisher, 400)
    world.check_outcomes()
    assert len(reader.arrivals) < 20 and len(fast.arrivals) == 400
    read_all(world, reader, seconds=20.0)
    reader.check(read_log(world))
    assert offsets(reader) == list(range(1, 401))


@pytest.mark.parametrize("durable", ["", "d"])
def test_a_full_queue_ends_a_subscription_that_fails(world: World, durable: str) -> None:
    publisher = Publisher(world.client("publisher"))
    client = world.client("slow", window_bytes=SLOW)
    reader = Reader(world, client, durable=durable, queue="fail")
    other = Reader(world, client)
    world.run(1.0)
    publish_steadily(world, publisher, 20)
    world.check_outcomes()
    assert error_of(reader) is None
    read_all(world, reader, other, seconds=2.0)
    assert offsets(reader) == list(range(1, 21))
    publish_steadily(world, publisher, 300)
    world.check_outcomes()
    read_all(world, reader, other, seconds=5.0)
    assert isinstance(error_of(reader), QueueFull)
    # It got everything up to its end, and continues there.
    assert reader.gaps == []
    got = offsets(reader)
    assert got == list(range(1, len(got) + 1)) and len(got) < 320
    start = None if durable else since(Position().advanced([reader.events[-1].place]))
    second = Reader(world, client, durable=durable, start=start, queue="block")
    read_all(world, second, other, seconds=20.0)
    rest = offsets(second)
    assert rest == list(range(rest[0], 321))
    # Unread events of an ended durable subscription come again.
    assert 21 <= rest[0] <= len(got) + 1 if durable else rest[0] == len(got) + 1
    other.check(read_log(world))
    assert other.gaps
    world.check_outcomes()
    by_policy = world.node.output.count_dropped_by_policy()
    assert by_policy["fail"] > 0 and by_policy["drop-oldest"] > 0 and by_policy["block"] == 0


def test_a_paused_durable_subscriber_that_fails_reads_its_queue_from_the_log(world: World) -> None:
    publisher = Publisher(world.client("publisher"))
    client = world.client("slow", window_bytes=SLOW)
    reader = Reader(world, client, durable="d", queue="fail")
    world.run(1.0)
    publish_steadily(world, publisher, 30)
    world.wait(client.ask("durable-pause", name="d"))
    publish_steadily(world, publisher, 100)
    read_all(world, reader, seconds=2.0)
    assert error_of(reader) is None and len(reader.events) < 30
    world.wait(client.ask("durable-resume", name="d"))
    read_all(world, reader, seconds=10.0)
    assert offsets(reader) == list(range(1, 131))
    world.check_outcomes()


def test_subscriptions_of_a_session_keep_their_policies(world: World) -> None:
    publisher = Publisher(world.client("publisher"))
    client = world.client("slow", window_bytes=SLOW)
    readers = {queue: Reader(world, client, queue=queue) for queue in ("", *POLICIES)}
    world.run(1.0)
    publish_altitudes(world, publisher, 300, 11)
    world.check_outcomes()
    read_all(world, *readers.values(), seconds=20.0)
    log = read_log(world)
    for queue, reader in readers.items():
        if queue != "fail":
            reader.check(log)
    assert isinstance(error_of(readers["fail"]), QueueFull)
    assert offsets(readers["block"]) == list(range(1, 301))
    for queue in ("", "drop-oldest", "coalesce", BY_ALTITUDE):
        assert readers[queue].items[-1] is readers[queue].events[-1]
        assert offsets(readers[queue])[-1] == 300
    assert isinstance(readers["drop-newest"].items[-1], Gap)
    world.check_outcomes()
    assert {gap.reason for gap in readers[BY_ALTITUDE].gaps} == {"coalesced"}


def test_status_and_metrics_count_drops_by_policy(world: World) -> None:
    publisher = Publisher(world.client("publisher"))
    client = world.client("slow", window_bytes=SLOW)
    readers = [Reader(world, client, queue=queue) for queue in ("", "drop-newest", BY_ALTITUDE)]
    world.run(1.0)
    publish_altitudes(world, publisher, 300, 11)
    readers[2].subscription.unsubscribe()  # type: ignore[union-attr]
    world.run(1.0)
    status = build_status(world.node)
    (rows,) = [row["subscriptions"] for row in status["sessions"] if row["subscriptions"]]
    assert [row["queue"] for row in rows] == ["drop-oldest", "drop-newest"]
    dropped = status["dropped_by_policy"]
    assert set(dropped) == {"block", "fail", "drop-oldest", "drop-newest", "coalesce"}
    assert [row["dropped"] for row in rows] == [dropped["drop-oldest"], dropped["drop-newest"]]
    assert dropped["coalesce"] > 100 and dropped["fail"] == dropped["block"] == 0
    assert sum(dropped.values()) == status["delivered"]["dropped"]
    families = {family.name: family for family in NodeCollector(world.node).collect()}
    samples = families["xmlbroker_dropped_events"].samples
    assert {each.labels["policy"]: each.value for each in samples} == dropped


@pytest.mark.parametrize("seed", seeds(6, 300))
def test_random_readers_get_or_miss_each_event_once(seed: int) -> None:
    chance = random.Random(seed)
    settings = Settings()
    settings = attrs.evolve(
        settings,
        limits=attrs.evolve(settings.limits, window_bytes=8_192),
        queue=attrs.evolve(settings.queue, events=chance.choice([20, 60, 200])),
    )
    with World(seed, settings=settings) as world:
        publisher = Publisher(world.client("publisher"))
        clients = [world.client(name, window_bytes=SLOW) for name in ("one", "two")]
        readers = [
            Reader(world, client, chance.choice(INTERESTS[:3]), queue=chance.choice(POLICIES[:-1]))
            for client in clients
            for _ in range(chance.randint(1, 4))
        ]
        world.run(1.0)
        for number in range(400):
            stream = chance.choice(["asdi.zbw.tz", "asdi.zny.tz", "other"])
            publisher.publish(stream, altitude=chance.choice([number % 5, 7, 200, 1000]))
            if chance.random() < 0.3:
                world.run(chance.random() / 10)
            for reader in readers:
                if chance.random() < 0.02:
                    reader.read_one()
            if chance.random() < 0.005:
                world.cut_client(chance.choice(["one", "two"]))
            if chance.random() < 0.004:
                world.kill_node()
                world.run(chance.random())
                world.start_node()
        world.run(10.0)
        read_all(world, *readers, seconds=30.0)
        log = read_log(world)
        for reader in readers:
            reader.check(log)
        world.check_outcomes()


@pytest.mark.parametrize(
    ("queue", "durable", "reason"),
    [
        ("newest", "", "'newest' is none of block, drop-oldest"),
        ("coalesce://flight", "", "no path of elements and attributes"),
        ("coalesce:/x:flight", "", "prefix 'x' is not bound"),
        ("x" * 2000, "", "has 2000 characters"),
        ("drop-oldest", "d", "its queue policy is block or fail, not drop-oldest"),
        ("coalesce", "d", "its queue policy is block or fail, not coalesce"),
    ],
)
def test_a_policy_that_is_unknown_or_does_not_fit_is_refused(
    world: World, queue: str, durable: str, reason: str
) -> None:
    reader = Reader(world, world.client("reader"), durable=durable, queue=queue)
    world.run(1.0)
    assert isinstance(reader.error, BadQueuePolicy) and reason in str(reader.error)
    assert world.node.subscription_requests.refused_subscriptions == {"bad-queue-policy": 1}
    (session,) = world.node.acceptor.sessions
    assert not session.delivery.feeds


def test_the_number_of_keys_with_a_path_is_bounded(world: World) -> None:
    client = world.client("reader")
    for _ in range(MAX_KEY_PATHS):
        assert Reader(world, client, queue=BY_ALTITUDE).error is None
    others = [Reader(world, client, queue=queue) for queue in ("coalesce", "", BY_ALTITUDE)]
    world.run(1.0)
    assert [type(each.error) for each in others] == [type(None), type(None), TooManySubscriptions]
    (session,) = world.node.acceptor.sessions
    assert len(session.delivery.feeds) == MAX_KEY_PATHS + 2


def test_a_client_of_an_earlier_version_has_the_default(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr("broker.client.settings.PROTOCOL_VERSIONS", (1, 2))
        reader = Reader(world, world.client("slow", window_bytes=SLOW))
        world.run(1.0)
    publisher = Publisher(world.client("publisher"))
    world.run(1.0)
    versions = {s.identity.client_id: s.version for s in world.node.acceptor.sessions}
    assert versions == {"slow": 2, "publisher": PROTOCOL_VERSIONS[-1]}
    publish_steadily(world, publisher, 300)
    read_all(world, reader)
    reader.check(read_log(world))
    assert [gap.reason for gap in reader.gaps] == ["slow"]
    assert offsets(reader)[-1] == 300


def test_a_node_of_an_earlier_version_ends_a_subscription_with_a_policy(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.sessions.acceptor.PROTOCOL_VERSIONS", (1, 2))
    client = world.client("reader")
    named, plain = Reader(world, client, queue="fail"), Reader(world, client)
    world.run(1.0)
    assert isinstance(named.error, VersionMismatch)
    publish_steadily(world, Publisher(world.client("publisher")), 3)
    plain.read()
    assert offsets(plain) == [1, 2, 3]


def test_the_order_of_items_is_that_of_places(world: World) -> None:
    publisher = Publisher(world.client("publisher"))
    reader = Reader(world, world.client("slow", window_bytes=SLOW), queue=BY_ALTITUDE)
    world.run(1.0)
    publish_altitudes(world, publisher, 300, 2 * QUEUE)
    read_all(world, reader, seconds=10.0)
    places = [
        item.place if isinstance(item, ReceivedEvent) else item.first for item in reader.items
    ]
    marks = [place.mark for place in places]
    assert marks == sorted(marks)
    # More keys than the queue has room for: the oldest are dropped.
    assert "slow" in {gap.reason for gap in reader.gaps}
    reader.check(read_log(world))
