"""Events of the level `high`, and secrets, leave no machine without encryption (M27, X12, T37)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from broker.client.client import Client
from broker.client.received import ALL
from broker.config import Settings
from broker.errors import BrokerError, ClearanceTooLow, CleartextForbidden
from broker.event.envelope import SecurityLevel
from broker.event.event_id import EventId
from broker.event.writer import write_event
from broker.testing.flights import FLIGHT, altitude_of, flight
from broker.testing.simulation import World
from tests.simulation.simulated_client import Reader
from tests.simulation.test_identities import ACCOUNTS, asdi, final_error

LOGIN: dict[str, Any] = {"account": "all", "secret": "right", "allow_cleartext": True}
MED, HIGH = SecurityLevel.MED, SecurityLevel.HIGH


@pytest.fixture
def world() -> Iterator[World]:
    with World(1, settings=attrs.evolve(Settings(), accounts=ACCOUNTS)) as world:
        yield world


def readable_client(world: World, name: str, **settings: Any) -> Client:
    """Return a client whose connections others on the network can read."""
    world.network.readable.add(world.client_address(name))
    return world.client(name, **{**LOGIN, **settings})


def publish(client: Client, level: SecurityLevel, altitude: int = 1) -> list[Any]:
    """Return the later result."""
    results: list[Any] = []
    awaited: Any = client.publish(
        "asdi.zbw", flight(altitude), attrs.evolve(FLIGHT, security_level=level)
    )
    awaited.addCallbacks(results.append, lambda failure: results.append(failure.value))
    return results


def altitudes(reader: Reader) -> list[int]:
    reader.read()
    return [altitude_of(event.document) for event in reader.events]


def test_client_sends_no_high_event_in_clear_text(world: World) -> None:
    client = readable_client(world, "publisher")
    early = publish(client, HIGH)
    med_before = publish(client, MED)
    world.run(1.0)
    assert isinstance(early[0], ClearanceTooLow)
    with pytest.raises(ClearanceTooLow, match="not encrypted"):
        publish(client, HIGH)
    with pytest.raises(ClearanceTooLow):
        client.ask("explain", world_document(HIGH), query="true()")
    med = publish(client, MED)
    world.run(1.0)
    assert not isinstance(med_before[0], BrokerError) and not isinstance(med[0], BrokerError)
    assert world.node.input.outcomes.received == world.node.input.outcomes.accepted == 2


def world_document(level: SecurityLevel) -> bytes:
    kind = attrs.evolve(FLIGHT, security_level=level)
    return write_event(EventId("publisher", 1, 1, 1), "asdi.zbw", kind, flight(1))


def test_node_refuses_high_events_that_came_in_clear_text(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = readable_client(world, "publisher")
    monkeypatch.setattr(client._cleartext, "check_document", lambda _: None)
    world.run(1.0)
    results = publish(client, HIGH)
    world.run(1.0)
    assert isinstance(results[0], ClearanceTooLow)
    assert "without encryption" in str(results[0])
    assert world.node.event_log.bounds.last == 0


@pytest.mark.parametrize("durable", ["", "d"])
def test_high_events_reach_only_confidential_sessions(world: World, durable: str) -> None:
    publisher = world.client("publisher", **LOGIN)
    readers = {
        name: Reader(world, client, asdi(), durable=durable, start=ALL)
        for name, client in (
            ("private", world.client("private", **LOGIN)),
            ("readable", readable_client(world, "readable")),
        )
    }
    world.run(1.0)
    for altitude, level in enumerate((MED, HIGH, MED)):
        publish(publisher, level, altitude)
    world.run(2.0)
    assert altitudes(readers["private"]) == [0, 1, 2]
    assert altitudes(readers["readable"]) == [0, 2]


def test_session_that_moves_to_clear_text_leaves_high_events_behind(world: World) -> None:
    address = world.client_address("mover")
    reader = Reader(world, world.client("mover", **LOGIN), asdi(), durable="d", start=ALL)
    publisher = world.client("publisher", **LOGIN)
    world.run(1.0)
    # The node still has this event to send when the connection breaks.
    world.network.hold(address, to_listener=False)
    publish(publisher, HIGH, 1)
    world.run_until(lambda: world.node.event_log.bounds.last == 1)
    world.run(0.5)
    world.network.readable.add(address)
    world.network.cut(address)
    world.network.release(address, to_listener=False)
    publish(publisher, MED, 2)
    world.run(5.0)
    (session,) = [s for s in world.node.acceptor.sessions if s.identity.client_id == "mover"]
    assert session.identity.clearance is MED
    assert altitudes(reader) == [2]
    world.network.readable.clear()
    world.network.cut(address)
    publish(publisher, HIGH, 3)
    world.run(5.0)
    assert altitudes(reader) == [2, 3]


def test_unanswered_high_event_waits_for_an_encrypted_connection(world: World) -> None:
    client = world.client("publisher", **LOGIN)
    address = world.client_address("publisher")
    world.run(1.0)
    results = publish(client, HIGH)
    # It is sent, and its answer is lost.
    world.run(0.0005)
    world.network.readable.add(address)
    world.network.cut(address)
    world.run(5.0)
    assert not results and not client.connected
    assert "waits for an encrypted connection" in str(client.last_error)
    world.network.readable.clear()
    world.run(5.0)
    assert not isinstance(results[0], BrokerError)


def test_client_sends_no_secret_in_clear_text_unless_allowed(world: World) -> None:
    client = readable_client(world, "publisher", allow_cleartext=False)
    world.run(1.0)
    assert isinstance(final_error(client), CleartextForbidden)
    assert not world.node.acceptor.refused_connections
    allowed = readable_client(world, "reader")
    world.run(1.0)
    assert allowed.connected
