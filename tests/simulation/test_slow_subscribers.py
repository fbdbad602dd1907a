from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import pytest

from broker.client.received import ALL, Gap
from broker.config import Settings
from broker.event.envelope import SecurityLevel
from broker.testing.flights import INTERESTS
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulation import World
from tests.simulation.simulated_client import Reader, read_log

QUEUE = 30
SLOW = 4_000
"""About six flights, in bytes."""


@pytest.fixture
def world() -> Iterator[World]:
    settings = Settings()
    settings = attrs.evolve(
        settings,
        limits=attrs.evolve(settings.limits, window_bytes=8_192),
        queue=attrs.evolve(settings.queue, events=QUEUE),
    )
    with World(1, settings=settings) as world:
        yield world


def publish_steadily(world: World, publisher: Publisher, count: int) -> None:
    for number in range(count):
        publisher.publish(altitude=number)
        world.run(0.01)
    world.run_until(lambda: not publisher.client.unacknowledged)


def read_all(world: World, *readers: Reader, seconds: float = 5.0) -> None:
    end = world.clock.seconds() + seconds
    while world.clock.seconds() < end:
        for reader in readers:
            reader.read()
        world.run(0.05)


def test_slow_transient_subscriber_loses_the_oldest_events_and_gets_a_gap(world: World) -> None:
    publisher = Publisher(world.client("publisher"))
    reader = Reader(world, world.client("slow", window_bytes=SLOW))
    world.run(1.0)
    publish_steadily(world, publisher, 400)
    world.check_outcomes()
    read_all(world, reader)
    log = read_log(world)
    reader.check(log)
    (gap,) = reader.gaps
    assert gap.reason == "slow"
    got = [event.place.offset for event in reader.events]
    assert got == [*range(1, gap.first.offset), *range(gap.last.offset + 1, 401)]
    assert gap.count == gap.last.offset - gap.first.offset + 1 == 400 - len(got)
    assert gap.last.offset == 400 - QUEUE
    index = next(i for i, item in enumerate(reader.items) if isinstance(item, Gap))
    assert len(reader.items[:index]) == gap.first.offset - 1
    world.check_outcomes()


def test_each_full_queue_makes_its_own_gap(world: World) -> None:
    publisher = Publisher(world.client("publisher"))
    reader = Reader(world, world.client("slow", window_bytes=SLOW))
    world.run(1.0)
    for _ in range(3):
        publish_steadily(world, publisher, 300)
        read_all(world, reader)
    reader.check(read_log(world))
    assert len(reader.gaps) == 3
    world.check_outcomes()


def test_slow_durable_subscriber_gets_everything_from_the_log(world: World) -> None:
    publisher = Publisher(world.client("publisher"))
    reader = Reader(world, world.client("slow", window_bytes=SLOW), durable="all")
    world.run(1.0)
    publish_steadily(world, publisher, 400)
    world.check_outcomes()
    assert len(reader.arrivals) < 20
    read_all(world, reader, seconds=20.0)
    reader.check(read_log(world))
    assert len(reader.events) == 400
    world.check_outcomes()


def test_slow_subscribers_do_not_delay_a_fast_one(world: World) -> None:
    publisher = Publisher(world.client("publisher"))
    fast = Reader(world, world.client("fast"))
    world.run(1.0)
    publish_steadily(world, publisher, 300)
    alone = [at - 1.0 for at, _ in fast.arrivals]
    world.run(5.0)
    slow = [
        Reader(world, world.client("slow-1", window_bytes=SLOW)),
        Reader(world, world.client("slow-2", window_bytes=SLOW), durable="d"),
        Reader(world, world.client("slow-3", window_bytes=SLOW), INTERESTS[1], durable="d"),
    ]
    world.run(1.0)
    start = world.clock.seconds()
    before = len(fast.arrivals)
    publish_steadily(world, publisher, 300)
    with_slow = [at - start for at, _ in fast.arrivals[before:]]
    assert len(alone) == len(with_slow) == 300
    # Delays are random; a larger difference would mean waiting.
    assert max(b - a for a, b in zip(alone, with_slow, strict=True)) < 0.03
    assert all(len(reader.arrivals) < 50 for reader in slow)
    fast.read()
    fast.check(read_log(world))


def test_subscriptions_of_one_client_share_a_window_and_lose_separately(
    world: World,
) -> None:
    publisher = Publisher(world.client("publisher"))
    client = world.client("both", window_bytes=SLOW)
    transient = Reader(world, client)
    durable = Reader(world, client, durable="d")
    rare = Reader(world, client, INTERESTS[3])
    world.run(1.0)
    publish_steadily(world, publisher, 400)
    world.check_outcomes()
    read_all(world, transient, durable, rare, seconds=20.0)
    log = read_log(world)
    for reader in (transient, durable, rare):
        reader.check(log)
    assert not durable.gaps
    lost = [sum(gap.count for gap in reader.gaps) for reader in (transient, rare)]
    assert lost[0] == 400 - len(transient.events) > 300
    assert lost[1] <= 1
    world.check_outcomes()


def test_events_waiting_for_an_ended_subscription_count_as_dropped(world: World) -> None:
    publisher = Publisher(world.client("publisher"))
    client = world.client("slow", window_bytes=SLOW)
    first, second = Reader(world, client), Reader(world, client)
    world.run(1.0)
    publish_steadily(world, publisher, 300)
    assert first.subscription is not None
    first.subscription.unsubscribe()
    world.run(0.5)
    world.check_outcomes()
    read_all(world, second)
    assert first.subscription.over
    second.check(read_log(world))
    world.check_outcomes()
    publish_steadily(world, publisher, 300)
    world.wait(client.close())
    world.run(1.0)
    world.check_outcomes()
    assert world.node.output.ended_outcomes.dropped > 0


def test_unread_events_of_an_ended_subscription_free_their_room(
    world: World,
) -> None:
    publisher = Publisher(world.client("publisher"))
    client = world.client("both", window_bytes=SLOW)
    left, unaffected = Reader(world, client), Reader(world, client, INTERESTS[4])
    world.run(1.0)
    publish_steadily(world, publisher, 100)
    assert left.subscription is not None
    left.subscription.unsubscribe()
    for _ in range(20):
        publisher.publish("other")
    read_all(world, unaffected)
    unaffected.check(read_log(world))
    assert len(unaffected.events) == 20
    assert left.subscription.over


def test_gap_precedes_later_events_when_the_queue_is_empty() -> None:
    # The queue accepts nothing larger than its bytes.
    settings = Settings()
    settings = attrs.evolve(
        settings,
        limits=attrs.evolve(settings.limits, window_bytes=8_192),
        queue=attrs.evolve(settings.queue, bytes=1_000),
    )
    with World(2, settings=settings) as world:
        publisher = Publisher(world.client("publisher"))
        reader = Reader(world, world.client("slow", window_bytes=SLOW))
        world.run(1.0)
        publish_steadily(world, publisher, 200)
        publisher.publish(altitude=1, size=2_000)
        world.run(1.0)
        read_all(world, reader)
        publish_steadily(world, publisher, 3)
        read_all(world, reader)
        log = read_log(world)
        reader.check(log)
        assert reader.gaps[-1].last.offset >= 201
        assert reader.events[-1].place.offset == 204
        world.check_outcomes()


def test_all_security_levels_arrive_without_accounts(world: World) -> None:
    # Without accounts every client is cleared for all levels.
    publisher = Publisher(world.client("publisher"))
    reader = Reader(world, world.client("reader"))
    world.run(1.0)
    for level in SecurityLevel:
        publisher.publish(level=level)
    read_all(world, reader, seconds=1.0)
    assert [event.header.security_level for event in reader.events] == list(SecurityLevel)


def test_many_catching_up_subscriptions_do_not_flood_their_session() -> None:
    settings = Settings()
    settings = attrs.evolve(settings, limits=attrs.evolve(settings.limits, window_bytes=16_384))
    with World(3, settings=settings) as world:
        publisher = Publisher(world.client("publisher"))
        world.run(1.0)
        publish_steadily(world, publisher, 200)
        client = world.client("reader", window_bytes=SLOW)

        looked_at = 0
        select = world.node.matcher.select

        def count(number: int, documents: Sequence[bytes], *rest: Any, **named: Any) -> list[bool]:
            nonlocal looked_at
            looked_at += len(documents)
            return select(number, documents, *rest, **named)

        world.node.matcher.select = count  # type: ignore[method-assign]
        readers = [Reader(world, client, start=ALL) for _ in range(10)]
        read_all(world, *readers, seconds=90.0)
        log = read_log(world)
        for reader in readers:
            reader.check(log)
            assert len(reader.events) == 200
        # A page without room is matched again, but not for every subscription.
        assert looked_at < 4 * 10 * 200
        assert world.node.acceptor.refused_connections == {}
        (session,) = [s for s in world.node.acceptor.sessions if s.delivery.feeds]
        assert session.identity.client_id == "reader"
        world.check_outcomes()
