"""Queries with a default namespace at several nodes: interest, recovery, replay, explain."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from broker.client.client import Client
from broker.client.subscription import Subscription
from broker.config import Settings
from broker.event.envelope import EventType
from broker.testing.simulated_network import NetworkWorld
from tests.matching.conftest import event

URI = "http://www.siri.org.uk/siri"
OTHERS = ("urn:other", "")
QUERY = "//VehicleActivity[Delay > 60]"
SIRI = EventType("siri", "2.0")


def siri(delay: int, uri: str = URI) -> bytes:
    activity = f"<VehicleActivity><Delay>{delay}</Delay></VehicleActivity>"
    return f'<Siri xmlns="{uri}">{activity}</Siri>'.encode()


@pytest.fixture
def world() -> Any:
    types = attrs.evolve(Settings().types, undescribed="accept")
    with NetworkWorld(3, settings=attrs.evolve(Settings(), types=types), archived=True) as world:
        world.add("old", "one")
        world.add("new", "one", join=["old"])
        world.add("far", "two", gateways=["old", "new"])
        world.run(2.0)
        yield world


def subscribe(world: NetworkWorld, client: Client, **options: Any) -> Subscription:
    waiting: Any = client.subscribe(QUERY, namespaces={"": URI}, **options)
    subscription: Subscription = world.wait(waiting)
    return subscription


def take_delays(world: NetworkWorld, subscription: Any) -> list[int]:
    """Return the delays of the events that came, which count as processed."""
    found: list[int] = []
    for _ in range(100):
        world.run(0.1)
        while items := subscription.take_ready():
            found += [int(e.document.split(b"<Delay>")[1].split(b"<")[0]) for e in items]
    return found


def publish(world: NetworkWorld, client: Client, delays: range) -> None:
    for delay in delays:
        for uri in (URI, *OTHERS):
            client.publish("bus", siri(delay, uri), SIRI)
    world.run_until(lambda: not client.unacknowledged)


def test_a_durable_subscription_keeps_its_default_namespace_at_all_nodes(
    world: NetworkWorld,
) -> None:
    publisher = world.client("publisher", "far")
    rover = world.client("rover", "old", incarnation=1, key_seed=b"k" * 32)
    first = subscribe(world, rover, durable="d")
    publish(world, publisher, range(59, 64))
    assert take_delays(world, first) == [61, 62, 63]
    announced = {query.text for _, query in world.network_of("far").remote_interest.queries()}
    assert announced == {"//d:VehicleActivity[d:Delay > 60]"}

    world.kill_client(rover)
    publish(world, publisher, range(64, 66))
    rover = world.client("rover", "new", incarnation=2, key_seed=b"k" * 32)
    second = subscribe(world, rover, durable="d")
    publish(world, publisher, range(66, 68))
    assert take_delays(world, second) == [64, 65, 66, 67]

    replay: Any = rover.replay(query=QUERY, namespaces={"": URI})
    assert take_delays(world, replay) == list(range(61, 68))


def test_explain_shows_the_query_as_written_and_the_missing_namespace(world: NetworkWorld) -> None:
    client = world.client("me", "old")
    document = event(siri(90), stream="bus", type_name="siri", version="2.0")

    def explain(**bindings: str) -> Any:
        asked: Any = client.ask(
            "explain", document, query=QUERY, namespaces=json.dumps(bindings), here="yes"
        )
        world.run(3.0)
        return world.wait(asked)["explanation"]

    bound = explain(**{"": URI})
    assert (bound["query"], bound["event"]["matches"]) == (QUERY, True)
    assert bound["event"]["finding"]["part"] == QUERY
    assert bound["event"]["finding"]["values"][0]["path"] == "/Siri/VehicleActivity"
    missing = explain()["event"]
    assert missing["matches"] is False
    assert missing["finding"]["note"] == (
        f"the event has no //VehicleActivity; it has 'VehicleActivity' in the namespace {URI}: "
        f"use --namespace siri={URI} and siri:VehicleActivity, "
        f"or --namespace {URI} for all names without prefix"
    )
