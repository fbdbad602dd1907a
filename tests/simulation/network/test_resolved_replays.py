from __future__ import annotations

import itertools
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from broker.client.merged import Merging
from broker.client.resolved import ResolvedReplay
from broker.errors import BadPosition, ReplayTooLarge
from broker.event.envelope import Bundle, EventLinkage, EventType, Order
from broker.testing.simulated_network import NetworkWorld

STREAM = "asdi.zbw.tz"
FLIGHT = EventType("flight", "1.0")
EVENTS = 40
_readers = itertools.count()


def publish(world: NetworkWorld, node: str, numbers: range) -> None:
    client = world.client(f"p-{node}", node)
    for number in numbers:
        linkage = EventLinkage(
            merge_scheme="bundle", bundles=(Bundle("b", number),), order=(Order(STREAM),)
        )
        payload = b"<flight><id>%d</id><flightleg/></flight>" % number
        client.publish(STREAM, payload, FLIGHT, linkage=linkage)
    world.run_until(lambda: not client.unacknowledged)
    world.run(2.0)


def numbers_of(world: NetworkWorld, node: str, **arguments: Any) -> list[int]:
    """Return the numbers in the payloads."""
    replay = world.client(f"reader-{next(_readers)}", node).replay(**arguments)

    async def read_all() -> list[int]:
        found = [int(event.document.split(b"id>")[1][:-2]) async for event in replay]
        assert not isinstance(replay, ResolvedReplay) or replay.position.marks
        return found

    read: list[int] = world.wait(Deferred.fromCoroutine(read_all()))
    return read


@pytest.fixture
def world() -> Any:
    """The archive has the even numbers, of a dead node."""
    with NetworkWorld(1, archived=True) as world:
        world.add("a", "one")
        world.add("b", "two", gateways=["a"])
        world.run(3.0)
        publish(world, "b", range(2, EVENTS + 1, 2))
        world.run(5.0)
        world.kill("b")
        world.run(3.0)
        publish(world, "a", range(1, EVENTS + 1, 2))
        yield world


def test_replay_in_bundle_order(world: NetworkWorld) -> None:
    ordered = list(range(1, EVENTS + 1))
    plain = numbers_of(world, "a")
    assert sorted(plain) == ordered != plain
    assert numbers_of(world, "a", order="bundle") == ordered
    by_time = Merging.by("time", [STREAM])
    assert numbers_of(world, "a", order="bundle", merge=by_time) == plain


def test_unknown_order_and_too_large_replay_raise_typed_errors(
    world: NetworkWorld,
) -> None:
    with pytest.raises(BadPosition, match="not 'place'"):
        world.client("reader", "a").replay(order="place")
    with pytest.raises(ReplayTooLarge, match="over 39 events"):
        numbers_of(world, "a", order="bundle", merge=Merging(max_events=EVENTS - 1))
    replay = world.client("another", "a").replay(order="bundle")
    world.run(1.0)
    replay.unsubscribe()
    world.run(1.0)
    assert replay.take_ready() == []
    assert not replay.position.marks
