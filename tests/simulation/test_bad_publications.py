"""A malformed publication fails its own receipt and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from broker.client.client import Client
from broker.client.received import Receipt, ReceivedEvent
from broker.client.subscription import Subscription
from broker.config import Settings
from broker.errors import (
    BadEnvelope,
    BadName,
    BadQuery,
    BrokerError,
    ForgedIdentity,
    NotWellFormed,
    TooLarge,
)
from broker.event.envelope import EventType
from broker.event.event_id import EventId
from broker.event.writer import write_event
from broker.testing.simulation import World
from broker.wire import messages
from broker.wire.event_batch import encode_batch
from broker.wire.messages import Goodbye
from tests.event.delimiters import event_with, single_fillings

KIND = EventType("flight", "1.0")
FLIGHT = b"<flight><id>UAL1</id><flightleg/></flight>"
KIB = 1024
LATIN_1 = b'<?xml version="1.0" encoding="ISO-8859-1"?>'


def event(client_id: str, number: int, payload: bytes = FLIGHT, incarnation: int = 1) -> bytes:
    event_id = EventId(client_id, 1_700_000_000_000, number, incarnation)
    return write_event(event_id, "flights", KIND, payload)


def padded(size: int) -> bytes:
    return FLIGHT.replace(b"<flightleg/>", b"<flightleg/><!--" + b"x" * size + b"-->")


def limited(**limits: int) -> Settings:
    settings = Settings()
    return attrs.evolve(settings, limits=attrs.evolve(settings.limits, **limits))


def outcome(world: World, awaitable: Any) -> str:
    """Return `receipt`, or the code of the error."""
    try:
        assert isinstance(world.wait(awaitable), Receipt)
    except BrokerError as error:
        return error.code
    return "receipt"


def record_states(client: Client) -> list[bool]:
    states: list[bool] = []
    client.on_state = lambda up, _: states.append(up)
    return states


def read_all(world: World, subscription: Subscription) -> list[ReceivedEvent]:
    events: list[ReceivedEvent] = []
    world.run(1.0)
    while portion := subscription.take_ready():
        events += portion
        world.run(0.1)
    return events


#: `number` is the event's own.
BAD: dict[str, tuple[Callable[[int], Any], type[BrokerError]]] = {
    "empty": (lambda _: b"", NotWellFormed),
    "empty-array": (lambda _: bytearray(), NotWellFormed),
    "none": (lambda _: None, BadEnvelope),
    "text": (lambda number: event("alice", number).decode(), BadEnvelope),
    "number": (lambda _: 7, BadEnvelope),
    "list": (lambda _: [event("alice", 1)], BadEnvelope),
    "blank": (lambda _: b" ", NotWellFormed),
    "mark": (lambda _: b"\xef\xbb\xbf", NotWellFormed),
    "nul": (lambda _: b"\0", NotWellFormed),
    "nul-inside": (lambda n: event("alice", n).replace(b"UAL1", b"\0"), NotWellFormed),
    "surrogate": (lambda n: event("alice", n).replace(b"UAL1", b"\xed\xa0\x80"), NotWellFormed),
    "utf-16": (lambda n: event("alice", n).decode().encode("utf-16"), NotWellFormed),
    "latin-1": (lambda n: LATIN_1 + event("alice", n).replace(b"UAL1", b"\xe9"), NotWellFormed),
    "utf-8-broken": (lambda n: event("alice", n).replace(b"UAL1", b"\xe9"), NotWellFormed),
    # Messages elsewhere.
    "batch": (lambda n: encode_batch(n, [event("alice", n)]), NotWellFormed),
    "goodbye": (lambda _: messages.encode(Goodbye()), NotWellFormed),
    "frame": (lambda n: b"\0\0\0\x02" + event("alice", n), NotWellFormed),
    "cut": (lambda number: event("alice", number)[:-1], NotWellFormed),
    "too-large": (lambda number: event("alice", number, padded(1 << 20)), TooLarge),
    "other-client": (lambda number: event("bob", number), ForgedIdentity),
    "other-incarnation": (lambda n: event("alice", n, incarnation=2), ForgedIdentity),
    "stream": (lambda n: event("alice", n).replace(b">flights<", b">../x<"), BadEnvelope),
    "number-zero": (lambda _: event("alice", 0), BadEnvelope),
    "endless": (lambda n: event("alice", n).replace(b"UAL1", b"<!--" * 16_000), NotWellFormed),
}


def test_malformed_publication_fails_only_its_own_receipt() -> None:
    with World(1) as world:
        alice, reader = world.client("alice"), world.client("reader")
        subscription = world.wait(reader.subscribe("//id = 'UAL1'"))
        world.wait(alice.when_connected())
        states = record_states(alice)
        results = []
        good = list(range(1, 2 * len(BAD) + 1, 2))
        for number, (make, _) in zip(good, BAD.values(), strict=True):
            event_id = EventId("alice", 1_700_000_000_000, number, 1)
            results.append(alice.publish_document(event("alice", number), event_id))
            results.append(alice.publish_document(make(number + 1), event_id))
        outcomes = [outcome(world, each) for each in results]
        assert dict(zip(BAD, outcomes[1::2], strict=True)) == {
            name: error.code for name, (_, error) in BAD.items()
        }
        assert set(outcomes[::2]) == {"receipt"}
        arrived = [e.event_id.sequence_number for e in read_all(world, subscription)]
        assert states == []
        assert arrived == good
        world.check_outcomes()


@pytest.mark.parametrize("size", [40 * KIB, 17 * KIB * KIB])
def test_event_too_large_for_the_node_fails_alone(size: int) -> None:
    settings = limited(max_event_bytes=32 * KIB, max_frame_bytes=64 * KIB)
    with World(1, settings=settings) as world:
        alice = world.client("alice")
        states = record_states(alice)
        results = [
            alice.publish("flights", payload, KIND)
            for payload in (FLIGHT, padded(size), *[padded(20 * KIB)] * 30, FLIGHT)
        ]
        asked = alice.ask("explain", event("alice", 1, padded(size)))
        outcomes = [outcome(world, each) for each in results]
        assert outcomes == ["receipt", TooLarge.code, *["receipt"] * 31]
        with pytest.raises(TooLarge):
            world.wait(asked)
        assert states == [True]


def test_batches_respect_the_frame_limit_of_the_node() -> None:
    settings = limited(max_event_bytes=32 * KIB, max_frame_bytes=64 * KIB)
    with World(1, settings=settings) as world:
        alice = world.client("alice")
        world.wait(alice.when_connected())
        states = record_states(alice)
        results = [alice.publish("flights", padded(16 * KIB), KIND) for _ in range(40)]
        results += [alice.publish("flights", b"<x/>", KIND) for _ in range(1000)]
        outcomes = [outcome(world, each) for each in results]
        assert outcomes == ["receipt"] * 40 + ["not-valid"] * 1000
        assert states == []


@pytest.mark.parametrize("document", [b"", b" ", b"\0", b"<", b"\xff\xfe<\0"])
def test_node_refuses_one_bad_event_of_a_batch(document: bytes) -> None:
    with World(1) as world:
        alice = world.client("alice")
        world.wait(alice.when_connected())
        states = record_states(alice)
        outbox = alice._core.outbox
        results = []
        for number, each in enumerate((event("alice", 1), document, event("alice", 3)), 1):
            # Without the client's own checks.
            results.append(alice._loop.make_promise())
            outbox.add(each, EventId("alice", 1, number, 1), results[-1])
        alice._flush()
        outcomes = [outcome(world, each.awaitable) for each in results]
        assert outcomes == ["receipt", NotWellFormed.code, "receipt"]
        assert states == []
        world.check_outcomes()


def test_broken_framing_ends_the_session() -> None:
    with World(1) as world:
        mallory = world.client("mallory")
        world.wait(mallory.when_connected())
        states = record_states(mallory)
        mallory._link.send([encode_batch(1, [b"<a/>"])[:-1]])
        world.run(1.0)
        assert states[:1] == [False]


SURROGATE = "\ud800"


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda c: c.publish(SURROGATE, FLIGHT, KIND), BadName),
        (lambda c: c.publish("a\0b", FLIGHT, KIND), BadName),
        (lambda c: c.publish("flights", FLIGHT, KIND, summary=SURROGATE), BadEnvelope),
        (lambda c: c.publish("flights", FLIGHT, KIND, system_id=SURROGATE), BadEnvelope),
        (
            lambda c: c.publish("flights", FLIGHT, KIND, application_types=(SURROGATE,)),
            BadEnvelope,
        ),
        (lambda c: c.publish("flights", b"", KIND), BadEnvelope),
        (lambda c: c.publish("flights", FLIGHT.decode(), KIND), TypeError),
        (lambda c: c.publish("flights", FLIGHT, KIND, application_types=["a"]), TypeError),
        (lambda c: c.subscribe(f"/a = '{SURROGATE}'"), BadQuery),
        (lambda c: c.subscribe("a" * (1 << 20)), BadQuery),
        (lambda c: c.subscribe("/x:a", namespaces={"x": SURROGATE}), BadQuery),
        (lambda c: c.subscribe("true()", SURROGATE), BadName),
        (lambda c: c.subscribe("true()", durable=SURROGATE), BadName),
        (lambda c: c.subscribe(None), BadQuery),
        (lambda c: c.ask("status", what=SURROGATE), BadName),
        (lambda c: c.ask("status", what="x" * (1 << 20)), TooLarge),
    ],
)
@pytest.mark.parametrize("connected", [True, False])
def test_client_rejects_arguments_that_no_message_can_hold(
    call: Callable[[Any], Any], error: type[Exception], connected: bool
) -> None:
    with World(1) as world:
        alice = world.client("alice")
        if connected:
            world.wait(alice.when_connected())
        states = record_states(alice)
        with pytest.raises(error):
            call(alice)
        receipt = world.wait(alice.publish("flights", FLIGHT, KIND))
        assert receipt.event_id.sequence_number == 1
        world.run(1.0)
        assert states == [] if connected else [True]


def test_node_refuses_a_nul_in_a_text() -> None:
    with World(1) as world:
        alice = world.client("alice")
        bad = alice.publish("flights", FLIGHT, KIND, summary="\0")
        good = alice.publish("flights", FLIGHT, KIND)
        assert [outcome(world, each) for each in (bad, good)] == [NotWellFormed.code, "receipt"]


def test_events_full_of_delimiters_are_delivered_and_replayed_unchanged() -> None:
    queries = ("/deadletter[@tries = 1]", "//forged or /forged", "//reason[contains(., 'orged')]")
    chosen = list(single_fillings())[::11]
    with World(1) as world:
        publisher, reader = world.client("feed"), world.client("reader")
        all_events, none, some = (world.wait(reader.subscribe(query)) for query in queries)
        payloads, told = [], []
        for number, (place, filling) in enumerate(chosen, 1):
            event_id = EventId("feed", 1_700_000_000_000, number, 1)
            document, payload = event_with({place: filling}, event_id)
            payloads.append(payload)
            told.append(publisher.publish_document(document, event_id))
        assert {outcome(world, each) for each in told} == {"receipt"}
        expected = [
            payload
            for payload, (place, filling) in zip(payloads, chosen, strict=True)
            if place == "reason" and "orged" in filling and not filling.startswith(("<!--", "<?"))
        ]
        right: tuple[list[bytes], ...] = (payloads, [], expected)
        for subscription, published in zip((all_events, none, some), right, strict=True):
            assert [e.payload for e in read_all(world, subscription)] == published
        for query, published in zip(queries, right, strict=True):
            assert [e.payload for e in read_all(world, reader.replay(query))] == published
