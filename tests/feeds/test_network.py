"""Feeds from a publisher at one node to queries at a node of another cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, TypeAlias

import attrs
import pytest

from broker.config import Settings, StreamSettings
from broker.event.envelope import EventType, Validation
from broker.event.stream import StreamPattern
from broker.testing.simulated_network import NetworkWorld
from tests.feeds.descriptions import describe
from tests.feeds.queries import FeedQuery, make_queries
from tests.feeds.rebinding import rebind
from tests.feeds.samples import MADE_UP, REAL_NAMES, Feed, real_feed

MOST_PAYLOADS = 8
#: Stream, validation, payload.
Received: TypeAlias = tuple[str, Validation, bytes]


@pytest.fixture(scope="module")
def world() -> Iterator[NetworkWorld]:
    streams = (StreamSettings(StreamPattern.parse("feeds.*.plain"), undescribed="accept"),)
    with NetworkWorld(5) as world:
        world.add("near", "one", settings=attrs.evolve(Settings(), streams=streams))
        world.add("relay", "one", join=["near"])
        world.add("far", "two", gateways=["relay"])
        world.run(2.0)
        yield world
        world.check_outcomes()


def choose_queries(payloads: Sequence[bytes], chance: Random) -> list[FeedQuery]:
    """Return queries that match some of the payloads, if they differ, and at most three."""
    drawn = make_queries(payloads, 40, chance)
    counts = [sum(map(query.matches, payloads)) for query in drawn]
    selective = [
        query for query, count in zip(drawn, counts, strict=True) if 0 < count < len(payloads)
    ]
    matching = [query for query, count in zip(drawn, counts, strict=True) if count]
    return (selective or matching)[:3]


def take(world: NetworkWorld, subscriptions: Sequence[Any]) -> list[list[Received]]:
    """Return what comes until nothing comes for a second."""
    received: list[list[Received]] = [[] for _ in subscriptions]
    quiet = 0
    while quiet < 10:
        quiet += 1
        world.run(0.1)
        for events, subscription in zip(received, subscriptions, strict=True):
            while ready := subscription.take_ready():
                events += [(each.stream, each.validation, each.payload) for each in ready]
                quiet = 0
    return received


def check(world: NetworkWorld, feed: Feed) -> None:
    chance = Random(feed.name)
    payloads = list(feed.payloads[:MOST_PAYLOADS])
    rebound = [rebind(each, chance) for each in payloads]
    queries = choose_queries(payloads, chance)
    assert queries
    stream = f"feeds.{feed.name.replace('.', '-')}"
    reader = world.client(f"reader-{feed.name}", "far")
    subscriptions: list[Any] = [
        world.wait(reader.subscribe(each.text, f"{stream}.*", namespaces=each.namespaces))
        for each in queries
    ]
    publisher = world.client(f"publisher-{feed.name}", "near")
    expected: list[Received] = []
    for kind, dtd in describe(feed):
        if dtd is not None:
            world["near"].dtds.add(kind, dtd)
        validation = Validation.UNDESCRIBED if dtd is None else Validation.DESCRIBED
        to = f"{stream}.{kind.type.rpartition('-')[2]}"
        for payload in (*payloads, *rebound):
            publisher.publish(to, payload, EventType(kind.type, kind.version))
            expected.append((to, validation, payload))
    world.run_until(lambda: not publisher.unacknowledged)
    received = take(world, subscriptions)
    for query, events in zip(queries, received, strict=True):
        assert events == [each for each in expected if query.matches(each[2])], query


@pytest.mark.parametrize("feed", MADE_UP, ids=lambda feed: feed.name)
def test_queries_at_another_node_select_events_by_namespaces(
    feed: Feed, world: NetworkWorld
) -> None:
    check(world, feed)


@pytest.mark.parametrize("name", REAL_NAMES)
def test_queries_at_another_node_select_real_events(name: str, world: NetworkWorld) -> None:
    check(world, real_feed(name))
