"""The newest event of each key."""

from __future__ import annotations

import pytest
from twisted.internet.defer import Deferred

from broker.client.latest import Latest, by_stream, by_xpath
from broker.client.received import ReceivedEvent
from broker.errors import BadQuery, Overloaded
from broker.event.envelope import EventType, Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.event.place import Place
from broker.event.writer import write_event
from broker.testing.simulation import World

FLIGHT = EventType("flight", "1.0")


def payload(name: str) -> bytes:
    return b"<flight><id>%s</id><flightleg/></flight>" % name.encode()


def received(number: int, name: str = "", stream: str = "s") -> ReceivedEvent:
    event_id = EventId("p", number, number, 1)
    kind = FLIGHT if name else EventType("event", "1.0")
    document = write_event(event_id, stream, kind, payload(name) if name else None)
    header = Header(event_id, stream, kind.name, kind.version, SecurityLevel.MED, Liveness.RECOVERY)
    return ReceivedEvent(Place("n", 1, number), header, Liveness.RECOVERY, document)


def numbers(latest: Latest) -> list[int]:
    return [event.place.offset for event in latest.events]


def test_the_newest_event_of_each_key_stays_in_order_of_arrival() -> None:
    latest = Latest(by_xpath("/flight/id"))
    for number, name in enumerate(["A", "B", "A", "", "C", "B"], 1):
        latest.add(received(number, name))
    assert numbers(latest) == [3, 4, 5, 6]


def test_a_stream_is_a_key() -> None:
    latest = Latest(by_stream)
    for number, stream in enumerate(["x", "y", "x"], 1):
        latest.add(received(number, stream=stream))
    assert numbers(latest) == [2, 3]


@pytest.mark.parametrize("text", ["/flight/id", "id", "flightleg/../id", "concat(//id, '')"])
def test_keys_are_expressions_on_the_payload(text: str) -> None:
    assert by_xpath(text)(received(1, "UAL7")) == "UAL7"


def test_prefixes_of_a_key_are_bound() -> None:
    key = by_xpath("v:flight/v:id", {"v": "urn:none"})
    assert key(received(1, "A")) == ""


@pytest.mark.parametrize("text", ["/flight[", "$x", "unknown()", "v:id"])
def test_an_invalid_key_is_refused(text: str) -> None:
    with pytest.raises(BadQuery, match="the key"):
        by_xpath(text)(received(1, "A"))


def test_one_key_too_many_is_refused() -> None:
    latest = Latest(by_xpath("/flight/id"), max_keys=2)
    for number, name in enumerate("ABA"):
        latest.add(received(number, name))
    with pytest.raises(Overloaded, match="more than 2 keys"):
        latest.add(received(4, "C"))


def test_a_client_reads_the_newest_published_events() -> None:
    with World(1) as world:
        client = world.client("c")
        for name in ("A", "B", "A", "C"):
            client.publish("s", payload(name), FLIGHT)
        world.wait(client.drained())
        world.run(1.0)
        found = world.wait(
            Deferred.fromCoroutine(client.latest(by_xpath("/flight/id"), "/flight[id != 'C']"))
        )
        assert [event.event_id.sequence_number for event in found] == [2, 3]
        assert len(world.wait(Deferred.fromCoroutine(client.latest()))) == 1
