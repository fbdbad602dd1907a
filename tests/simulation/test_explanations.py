"""Explanations of a whole node: queries, events, and deliveries to a client (N7, Q14)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from broker.client.client import Client
from broker.client.received import ALL
from broker.config import Settings
from broker.errors import BadName, BadQuery, NotAllowed, Overloaded, TooLarge
from broker.event.envelope import EventType, SecurityLevel
from broker.event.event_id import EventId
from broker.event.writer import write_event
from broker.node.metrics import NodeCollector
from broker.node.status import build_status
from broker.testing.flights import INTERESTS, Interest, flight
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulation import World
from tests.simulation.simulated_client import Reader
from tests.simulation.test_identities import ACCOUNTS
from tests.simulation.test_slow_subscribers import SLOW, publish_steadily

HIGH = "/flight/flightleg[altitude > 300]"


def event(altitude: int, *, stream: str = "asdi.zbw", number: int = 1, **kind: Any) -> bytes:
    event_type = EventType("flight", "1.0", **kind)
    return write_event(EventId("publisher", 7, number, 1), stream, event_type, flight(altitude))


def explained(world: World, asker: Client, document: bytes = b"", /, **arguments: str) -> Any:
    return world.wait(asker.ask("explain", document, **arguments))


def interest_in(pattern: str, query: str) -> Interest:
    return Interest(pattern, query, lambda stream, altitude: True)


@pytest.fixture
def world() -> Iterator[World]:
    settings = Settings()
    settings = attrs.evolve(
        settings,
        limits=attrs.evolve(settings.limits, window_bytes=8_192),
        queue=attrs.evolve(settings.queue, events=30),
        validation=attrs.evolve(settings.validation, engine="switch"),
    )
    with World(1, settings=settings) as world:
        yield world


# ----------------------------------------------------------------------------- queries


def test_query_is_explained_with_the_shapes_of_the_node(world: World) -> None:
    publisher = Publisher(world.client("publisher"))
    for altitude in range(5):
        publisher.publish(altitude=altitude)
    world.run(1.0)
    told = explained(world, world.client("me"), query=HIGH)["explanation"]
    assert told["engine"] == "switch"
    (answer,) = told["types"]
    assert (answer["type"], answer["how"], answer["shapes"]) == ("flight", "index", 1)
    (comparison,) = answer["alternatives"][0]["comparisons"]
    assert list(comparison["paths"]) == ["/flight/flightleg/altitude"]


def test_event_is_explained_with_its_stream_and_clearance(world: World) -> None:
    me = world.client("me")
    told = explained(world, me, event(290), query=HIGH, streams="asdi.*")
    assert told["explanation"]["event"]["matches"] is False
    assert told["subscription"] == {
        "pattern": "asdi.*",
        "allowed": True,
        "stream": True,
        "cleared": True,
    }
    told = explained(world, me, event(310), query=HIGH, streams="other")
    assert told["explanation"]["event"]["matches"] is True
    assert told["subscription"]["stream"] is False
    told = explained(world, me, event(310).replace(b"altitude", b"oops"), query=HIGH)
    assert told["explanation"]["event"]["refused"][0] == "not-valid"


def test_namespace_prefixes_are_json(world: World) -> None:
    me = world.client("me")
    bindings = json.dumps({"v": "urn:v"})
    assert explained(world, me, query="/v:a", namespaces=bindings)["explanation"]["query"] == "/v:a"
    for wrong in ("[1]", "{", '{"v": 1}', "[" * 10_000):
        with pytest.raises(BadQuery):
            explained(world, me, query="/v:a", namespaces=wrong)


def test_invalid_requests_raise_typed_errors(world: World) -> None:
    me = world.client("me")
    world.run(1.0)
    with pytest.raises(BadQuery, match="no query"):
        explained(world, me)
    with pytest.raises(BadQuery, match="operand"):
        explained(world, me, query="/flight[")
    with pytest.raises(BadName):
        explained(world, me, query="/flight", streams="a..b")
    with pytest.raises(TooLarge):
        explained(world, me, b"x" * (2 << 20), query="/flight")


def test_event_of_an_unknown_type_is_explained_as_refused(world: World) -> None:
    unknown = event(300).replace(b"DTD flight 1.0", b"DTD heard 1.0")
    assert unknown != event(300)
    told = explained(world, world.client("me"), unknown, query=HIGH, client="me")
    assert told["explanation"]["event"]["refused"][0] == "unknown-type"
    assert told["client"]["accepted"] is None


def test_too_many_requests_are_refused_as_overloaded(world: World) -> None:
    me = world.client("me")
    world.run(1.0)
    asked: list[Any] = [me.ask("explain", query=HIGH) for _ in range(4)]
    results: list[Any] = []
    for each in asked:
        each.addBoth(lambda result: results.append(getattr(result, "value", result)))
    world.run(60.0)
    refused = [each for each in results if isinstance(each, Overloaded)]
    assert len(results) == 4
    assert 1 <= len(refused) <= 2


# ----------------------------------------------------------------------------- rights


@pytest.fixture
def guarded() -> Iterator[World]:
    settings = attrs.evolve(Settings(), accounts=ACCOUNTS)
    validation = attrs.evolve(settings.validation, engine="switch")
    with World(1, settings=attrs.evolve(settings, validation=validation)) as world:
        yield world


def member(world: World, client_id: str, account: str) -> Client:
    return world.client(client_id, account=account, secret="right")


def test_only_administrators_inspect_other_clients(guarded: World) -> None:
    low, admin = member(guarded, "low-1", "low"), member(guarded, "root", "all")
    guarded.run(1.0)
    with pytest.raises(NotAllowed):
        explained(guarded, low, event(290), client="root")
    assert explained(guarded, low, event(290), client="low-1")["client"]["client"] == "low-1"
    assert explained(guarded, admin, event(290), client="low-1")["client"]["client"] == "low-1"


def test_shapes_are_shown_only_to_accounts_that_may_read_every_event(guarded: World) -> None:
    low, admin = member(guarded, "low-1", "low"), member(guarded, "root", "all")
    publisher = Publisher(admin)
    guarded.run(1.0)
    for altitude in range(5):
        publisher.publish(altitude=altitude)
    guarded.run(1.0)
    told = explained(guarded, low, query=HIGH)["explanation"]
    assert (told["withheld"], list(told["types"])) == (True, [])
    told = explained(guarded, admin, query=HIGH)["explanation"]
    assert (told["withheld"], len(told["types"])) == (False, 1)


def test_low_clearance_is_the_reason(guarded: World) -> None:
    low, admin = member(guarded, "low-1", "low"), member(guarded, "root", "all")
    guarded.run(1.0)
    Reader(guarded, low, interest_in("asdi.>", HIGH))
    guarded.run(1.0)
    document = event(310, security_level=SecurityLevel.HIGH)
    told = explained(guarded, admin, document, client="low-1")["client"]
    (subscription,) = told["subscriptions"]
    assert (subscription["verdict"], subscription["matches"]) == ("clearance", True)
    assert subscription["reason"] == "the event is high, the client is cleared up to low"
    told = explained(guarded, low, document, query=HIGH, streams="asdi.zbw")
    assert told["subscription"]["cleared"] is False


# ----------------------------------------------------------------------------- verdicts


def verdicts(world: World, document: bytes, client_id: str) -> dict[str, tuple[str, str]]:
    told = explained(world, world.client("asker"), document, client=client_id)["client"]
    return {each["query"]: (each["verdict"], each["reason"]) for each in told["subscriptions"]}


def test_each_subscription_gets_its_own_reason(world: World) -> None:
    reader = world.client("reader")
    for pattern, query in (
        ("other", "true()"),
        ("asdi.>", HIGH),
        ("asdi.>", "/flight/leg"),
        (">", "//altitude = 290"),
    ):
        Reader(world, reader, interest_in(pattern, query))
    world.run(1.0)
    assert verdicts(world, event(290), "reader") == {
        "true()": ("stream", "other does not match the stream asdi.zbw"),
        HIGH: ("query", "there is 1 /flight/flightleg, but none with [altitude > 300]"),
        "/flight/leg": ("query", "the event has no /flight/leg, though it has /flight"),
        "//altitude = 290": ("delivered", ""),
    }


def test_explanation_shows_if_the_node_accepted_the_event(world: World) -> None:
    publisher = Publisher(world.client("publisher"))
    reader = Reader(world, world.client("reader"))
    world.run(1.0)
    publisher.publish("asdi.zbw", altitude=310)
    world.run(1.0)
    reader.read()
    asker = world.client("asker")
    (received,) = reader.events
    told = explained(world, asker, received.document, client="reader")["client"]
    assert told["accepted"] is True
    assert list(told["connected"]) == ["connected"]
    assert told["subscriptions"][0]["delivered"] == 1
    told = explained(world, world.client("asker-2"), event(1, number=99), client="reader")
    assert told["client"]["accepted"] is False


def test_full_queue_is_the_reason(world: World) -> None:
    publisher = Publisher(world.client("publisher"))
    Reader(world, world.client("reader", window_bytes=SLOW))
    world.run(1.0)
    publish_steadily(world, publisher, 300)
    verdict, reason = verdicts(world, event(290), "reader")["true()"]
    assert verdict == "dropped"
    assert reason.startswith("its queue was full: ")


def test_durable_subscription_of_an_absent_client_is_shown_as_away(world: World) -> None:
    reader = world.client("reader")
    Reader(world, reader, INTERESTS[0], durable="mine", start=ALL)
    world.run(1.0)
    world.wait(reader.close())
    world.run(1.0)
    told = explained(world, world.client("asker"), event(290), client="reader")["client"]
    assert list(told["connected"]) == []
    (subscription,) = told["subscriptions"]
    assert (subscription["durable"], subscription["verdict"]) == ("mine", "away")


def test_without_an_event_subscriptions_are_listed(world: World) -> None:
    Reader(world, world.client("reader"), interest_in(">", HIGH))
    world.run(1.0)
    told = explained(world, world.client("asker"), client="reader")
    assert told["explanation"] is None
    (subscription,) = told["client"]["subscriptions"]
    assert (subscription["query"], subscription["verdict"]) == (HIGH, "")
    assert (subscription["matches"], subscription["pace"]) == (None, "live")


def test_long_lists_of_subscriptions_are_cut_and_counted(world: World) -> None:
    reader = world.client("reader")
    for number in range(103):
        Reader(world, reader, interest_in(">", f"//altitude = {number}"))
    world.run(5.0)
    told = explained(world, world.client("asker"), event(290), client="reader")["client"]
    assert len(told["subscriptions"]) + told["left_out"] == 103
    assert told["left_out"] >= 3


def test_node_stops_after_an_explanation(world: World) -> None:
    me = world.client("me")
    world.run(1.0)
    explained(world, me, query=HIGH)
    world.stop_node()
    assert not world.is_running


# ----------------------------------------------------------------------------- metrics


def test_status_and_metrics_count_each_type(world: World) -> None:
    publisher = Publisher(world.client("publisher"))
    Reader(world, world.client("reader"), interest_in(">", "count(//flightleg[altitude > 3]) > 0"))
    world.run(1.0)
    for altitude in range(20):
        publisher.publish(altitude=altitude)
        world.run(0.1)
    refused: Any = publisher.client.publish("asdi", b"<flight/>", EventType("flight", "1.0"))
    refused.addErrback(lambda _: None)
    world.run(1.0)
    (flights,) = build_status(world.node)["types"]
    assert flights["refused"] == 1
    assert (flights["type"], flights["version"], flights["shapes"]) == ("flight", "1.0", 1)
    assert flights["recognised"] + flights["parsed"] == 20
    assert flights["undecided"] == flights["recognised"] > 15
    assert flights["recognised_seconds"] >= flights["undecided_seconds"] > 0
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in NodeCollector(world.node).collect()
        for sample in family.samples
    }
    name = ("flight", "1.0")
    assert samples["xmlbroker_type_events_total", *name, "parsed"] == flights["parsed"]
    assert samples["xmlbroker_type_events_total", *name, "recognised"] == flights["recognised"]
    assert samples["xmlbroker_type_undecided_evaluations_total", *name] == flights["undecided"]
    assert samples["xmlbroker_type_seconds_total", *name, "undecided"] > 0
    assert samples["xmlbroker_type_shapes", *name] == 1
    assert samples["xmlbroker_type_suspended", *name] == 0
