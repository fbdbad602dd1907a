"""XML 1.1 is refused by every way into a node, also if another node has accepted it."""

from __future__ import annotations

from typing import Any

import pytest

from broker.client.received import Gap, Receipt
from broker.errors import BadEnvelope, NotWellFormed
from broker.event.envelope import EventType
from broker.event.event_id import EventId
from broker.event.writer import write_event
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read
from broker.testing.transport_network import EVERYTHING

KIND = EventType("flight", "1.0")
FLIGHT = b"<flight><id>UAL1</id><flightleg/></flight>"


def in_xml_1_1(client_id: str, number: int) -> bytes:
    made = write_event(EventId(client_id, 1_700_000_000_000, number, 1), "asdi.zbw", KIND, FLIGHT)
    return made.replace(b'version="1.0"', b'version="1.1"', 1)


def accept_xml_1_1(world: NetworkWorld, name: str) -> None:
    """Let a node read such documents, as a node with an error would."""
    matcher: Any = world[name].matcher
    for prologs in (matcher._examiner._prologs, matcher._shapes._prologs):
        read_prolog = prologs.read
        prologs.read = lambda d, r=read_prolog: r(d.replace(b'="1.1"', b'="1.0"', 1))


def test_a_client_and_a_node_refuse_it() -> None:
    with NetworkWorld(0) as world:
        world.add("a", "one")
        client = world.client("p", "a")
        world.run(1.0)
        with pytest.raises(BadEnvelope, match=r"payload is in XML 1\.1: only 1\.0 is accepted"):
            client.publish("asdi.zbw", b'<?xml version="1.1"?>' + FLIGHT, KIND)
        refused: Any = client.publish_document(in_xml_1_1("p", 1), EventId("p", 0, 1, 1))
        with pytest.raises(NotWellFormed, match=r"XML version '1\.1' is not accepted"):
            world.wait(refused)


def test_a_relayed_one_becomes_a_gap() -> None:
    """The node itself does not validate events again that come from logs and archives."""
    with NetworkWorld(0) as world:
        world.add("a", "one")
        world.add("b", "two", gateways=["a"])
        world.run(3.0)
        accept_xml_1_1(world, "a")
        live = Reader(world, world.client("live", "b"), EVERYTHING)
        away = Reader(world, world.client("away", "b"), EVERYTHING, durable="d")
        world.run_until(lambda: live.is_flowing and away.is_flowing)
        world.run(1.0)
        world.kill_client(away.client)
        client = world.client("p", "a")
        sent: Any = client.publish_document(in_xml_1_1("p", 1), EventId("p", 0, 1, 1))
        assert isinstance(world.wait(sent), Receipt)
        Publisher(world.client("q", "a")).publish("asdi.zbw", 7)
        world.run(5.0)
        away = Reader(world, world.client("away", "b", incarnation=2), EVERYTHING, durable="d")
        read(world, live, away, seconds=10.0)
        for reader in (live, away):
            kinds = [each.reason if isinstance(each, Gap) else "event" for each in reader.items]
            assert kinds == ["not-well-formed", "event"], reader.client.client_id
