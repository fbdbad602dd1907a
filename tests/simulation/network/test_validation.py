"""Nodes treat an event as its origin has validated it: without a DTD, by one, or with a mark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from broker.client.client import Client
from broker.client.subscription import Subscription
from broker.config import EventTypeSettings, Settings, StreamSettings
from broker.dtd.reference import DtdReference
from broker.errors import UnknownType
from broker.event.envelope import EventType, Validation
from broker.event.stream import StreamPattern
from broker.testing.simulated_network import NetworkWorld

ODD = EventType("odd", "1.0")
LENIENT = DtdReference("lenient", "1.0")
_HEAD = b"""<!ENTITY %% Mspaces.content ", %b">
<!ENTITY %% Mspaces.envelope
         PUBLIC "-//xmlbroker//ELEMENTS Mspaces Envelope 1.1//EN" "mspaces-1.1.mod">
%%Mspaces.envelope;
"""
ODD_DTD = _HEAD % b"odd" + b'<!ELEMENT odd (#PCDATA)><!ATTLIST odd kind CDATA "usual">'
LENIENT_DTD = ODD_DTD.replace(b"odd", b"lenient")
INVALID = b"<lenient><x/></lenient>"


def accepting() -> Settings:
    """Settings of an origin: one stream takes all types, and one type is lenient."""
    return attrs.evolve(
        Settings(),
        streams=(StreamSettings(StreamPattern.parse("feeds.>"), undescribed="accept"),),
        event_types=(EventTypeSettings("len*", on_invalid="mark"),),
    )


@pytest.fixture
def world() -> Iterator[NetworkWorld]:
    with NetworkWorld(3, archived=True) as world:
        world.add("origin", "one", settings=accepting())
        world.add("relay", "one", join=["origin"])
        world.add("far", "two", gateways=["origin", "relay"])
        world.run(2.0)
        yield world


def subscribe(world: NetworkWorld, client: Client, query: str = "", **more: Any) -> Subscription:
    waiting: Any = client.subscribe(query or "true()", **more)
    subscription: Subscription = world.wait(waiting)
    return subscription


def publish(world: NetworkWorld, client: Client, stream: str, payload: bytes, kind: Any) -> Any:
    made: Any = client.publish(stream, payload, kind)
    outcome: list[Any] = []
    made.addBoth(outcome.append)
    world.run_until(lambda: bool(outcome))
    return outcome[0]


def take(world: NetworkWorld, subscription: Any, seconds: float = 5.0) -> list[tuple[str, str]]:
    """Return payloads and validations of what came."""
    found: list[tuple[str, str]] = []
    for _ in range(int(seconds * 10)):
        world.run(0.1)
        while items := subscription.take_ready():
            found += [
                (e.payload.decode(), e.validation.value) if hasattr(e, "payload") else (str(e), "")
                for e in items
            ]
    return found


def test_an_undescribed_event_stays_so_at_nodes_that_have_or_want_a_dtd(
    world: NetworkWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = world.client("publisher", "origin")
    readers = {node: subscribe(world, world.client(f"at-{node}", node)) for node in world.names}
    usual = subscribe(world, world.client("usual", "relay"), "/odd/@kind = 'usual'")
    asked = subscribe(world, world.client("asked", "far"), "$Validation = 'undescribed'")
    for number in range(4):
        publish(world, publisher, "feeds.odd", b"<odd>%d</odd>" % number, ODD)
        if not number:
            # The relay has a DTD that would supply an attribute, and has not announced it yet.
            monkeypatch.setattr(world["relay"].dtds, "_on_added", lambda _: None)
            world["relay"].dtds.add(DtdReference("odd", "1.0"), ODD_DTD)
    expected = [(f"<odd>{number}</odd>", "undescribed") for number in range(4)]
    for name, reader in [*readers.items(), ("asked", asked)]:
        assert take(world, reader, 1.0) == expected, name
    assert take(world, usual, 1.0) == []


def test_a_stream_that_takes_no_new_types_refuses_a_mistyped_one(world: NetworkWorld) -> None:
    publisher = world.client("publisher", "origin")
    refused = publish(world, publisher, "other", b"<odd>1</odd>", ODD)
    assert "odd 1.0" in str(refused.value)
    assert isinstance(refused.value, UnknownType)
    mistyped = publish(world, publisher, "other", b"<flight/>", EventType("flihgt", "1.0"))
    assert "did you mean the type flight?" in str(mistyped.value)
    # The same type is still taken elsewhere, and the other way round.
    assert publish(world, publisher, "feeds.a", b"<odd>1</odd>", ODD).place is not None
    again = publish(world, publisher, "other", b"<odd>1</odd>", ODD)
    assert isinstance(again.value, UnknownType)


def test_events_are_described_as_soon_as_the_dtd_is_there(world: NetworkWorld) -> None:
    publisher = world.client("publisher", "origin")
    reader = subscribe(world, world.client("reader", "far"), "/odd/@kind = 'usual'")
    durable = subscribe(world, world.client("durable", "relay"), durable="d")
    publish(world, publisher, "feeds.odd", b"<odd>1</odd>", ODD)
    world["origin"].dtds.add(DtdReference("odd", "1.0"), ODD_DTD)
    publish(world, publisher, "feeds.odd", b"<odd>2</odd>", ODD)
    assert take(world, reader) == [("<odd>2</odd>", "described")]
    assert take(world, durable) == [("<odd>1</odd>", "undescribed"), ("<odd>2</odd>", "described")]


def test_recovered_and_replayed_events_keep_their_validation(world: NetworkWorld) -> None:
    for node in world.names:
        world[node].dtds.add(LENIENT, LENIENT_DTD)
    publisher = world.client("publisher", "origin")
    rover = world.client("rover", "far", incarnation=1, key_seed=b"k" * 32)
    subscribe(world, rover, durable="d")
    world.run(1.0)
    world.kill_client(rover)
    lenient = EventType("lenient", "1.0")
    publish(world, publisher, "feeds.odd", b"<odd>1</odd>", ODD)
    publish(world, publisher, "feeds.len", b"<lenient>2</lenient>", lenient)
    publish(world, publisher, "feeds.len", INVALID, lenient)
    expected = [
        ("<odd>1</odd>", Validation.UNDESCRIBED.value),
        ("<lenient>2</lenient>", Validation.DESCRIBED.value),
        ("<lenient><x/></lenient>", Validation.MARKED.value),
    ]
    world.run(20.0)
    for node in world.names:
        world.kill(node)
        world.start(node)
    world.run(5.0)
    rover = world.client("rover", "relay", incarnation=2, key_seed=b"k" * 32)
    again = subscribe(world, rover, durable="d")
    assert take(world, again) == expected
    replay: Any = rover.replay(query="$Validation != 'described'", namespaces={})
    assert take(world, replay) == [expected[0], expected[2]]
    # Defaults of the DTD are those of its type for a marked event, too.
    replay = rover.replay(query="/*/@kind = 'usual'", namespaces={})
    assert take(world, replay) == expected[1:]


def test_an_invalid_event_of_a_lenient_type_passes_with_a_mark(world: NetworkWorld) -> None:
    for node in world.names:
        world[node].dtds.add(LENIENT, LENIENT_DTD)
    publisher = world.client("publisher", "origin")
    strict = world.client("strict", "relay")
    reader = subscribe(world, world.client("reader", "far"))
    marked = subscribe(world, world.client("marked", "relay"), "$Validation = 'marked'")
    path = subscribe(world, world.client("path", "far"), "/lenient/x")
    lenient = EventType("lenient", "1.0")
    publish(world, publisher, "s", b"<lenient>1</lenient>", lenient)
    publish(world, publisher, "s", INVALID, lenient)
    assert publish(world, strict, "s", INVALID, lenient).value.code == "not-valid"
    invalid = ("<lenient><x/></lenient>", "marked")
    assert take(world, reader, 2.0) == [("<lenient>1</lenient>", "described"), invalid]
    assert take(world, marked, 1.0) == [invalid]
    assert take(world, path, 1.0) == [invalid]
