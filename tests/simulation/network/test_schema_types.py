"""A type's XML Schema is part of its text: all nodes validate events by it (M13, M17, T25)."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from broker.client.received import ALL, Gap
from broker.config import EventTypeSettings, Settings
from broker.dtd.reference import DtdReference
from broker.errors import NotValid
from broker.event.envelope import EventType
from broker.testing.flights import Interest
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_reader import Reader, read
from tests.dtd.xsd.schema_types import flight_text

KIND = EventType("flight", "7.0")
REFERENCE = DtdReference("flight", "7.0")
EVERYTHING = Interest(">", "/flight/altitude > 100", lambda stream, altitude: True)


def publish(world: NetworkWorld, client: Any, altitude: object) -> Any:
    made: Any = client.publish("s", b"<flight><altitude>%a</altitude></flight>" % altitude, KIND)
    outcome: list[Any] = []
    made.addBoth(outcome.append)
    world.run_until(lambda: bool(outcome))
    return outcome[0]


def items_of(reader: Reader) -> list[object]:
    """Return the altitude of each event, and the reason of each gap."""
    return [
        each.reason
        if isinstance(each, Gap)
        else int(each.document.split(b"<altitude>")[1].split(b"<")[0])
        for each in reader.items
    ]


def test_a_schema_travels_with_its_type_and_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    with NetworkWorld(5, archived=True) as world:
        world.add("origin", "one")
        world.add("relay", "two", gateways=["origin"])
        world.add("far", "three", gateways=["relay"])
        world.run(2.0)
        added = world["origin"].dtds.add(REFERENCE, flight_text())
        world.run(5.0)
        for name in world.names:
            known = world[name].dtds.get(REFERENCE)
            assert known is not None and known.text == added.text
        publisher = world.client("publisher", "origin")
        reader = Reader(world, world.client("reader", "far"), EVERYTHING)
        world.run(1.0)
        assert publish(world, publisher, 290).place is not None
        refused = publish(world, publisher, 601).value
        assert isinstance(refused, NotValid)
        assert "allowed ('600'). [flight.xsd:3] (schema of flight 7.0)" in str(refused)
        # A node in between, which has the text, does not believe an origin without checks.
        schema: Any = world["origin"].dtds.get(REFERENCE)
        with monkeypatch.context() as patched:
            patched.setattr(schema.schema, "check", lambda root: None)
            assert publish(world, publisher, 602).place is not None
        assert publish(world, publisher, 300).place is not None
        read(world, reader, seconds=10.0)
        assert items_of(reader) == [290, "not-valid", 300]
        # Restarted nodes have the schema from their disks.
        for name in world.names:
            world.kill(name)
            world.start(name)
        world.run(5.0)
        assert isinstance(publish(world, publisher, 603).value, NotValid)
        assert publish(world, publisher, 310).place is not None
        world.run(20.0)
        # A new node gets the text from the archive. Archived events are not validated again.
        for name in world.names:
            world.kill(name)
        world.add("new", "four")
        world.run(2.0)
        late = Reader(world, world.client("late", "new"), EVERYTHING, start=ALL)
        read(world, late, seconds=20.0)
        assert items_of(late) == [290, 602, 300, 310]


def test_a_lenient_type_marks_events_that_its_schema_refuses() -> None:
    lenient = (EventTypeSettings("flight", on_invalid="mark"),)
    with NetworkWorld(6) as world:
        world.add("origin", "one", settings=attrs.evolve(Settings(), event_types=lenient))
        world.add("far", "two", gateways=["origin"])
        world.run(2.0)
        world["origin"].dtds.add(REFERENCE, flight_text())
        world.run(3.0)
        publisher = world.client("publisher", "origin")
        reader = Reader(world, world.client("reader", "far"), EVERYTHING)
        world.run(1.0)
        for altitude in (200, 700, 201, 701, 202):
            assert publish(world, publisher, altitude).place is not None
        read(world, reader, seconds=3.0)
        assert items_of(reader) == [200, 700, 201, 701, 202]
        found = [event.validation.value for event in reader.events]
        assert found == ["described", "marked", "described", "marked", "described"]
