"""Events with more new names than a node stores, at all nodes of a network."""

from __future__ import annotations

from typing import Any

from broker.client.received import ALL
from broker.event.envelope import EventType
from broker.testing.flights import Interest, flight
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_reader import Reader, read

#: More than the share of an account, and of all other nodes.
NAMES, EVENTS = 11_000, 3
FLIGHT = EventType("flight", "1.0")
ONE_ALTITUDE = Interest(">", "count(//altitude) = 1", lambda stream, altitude: True)


def named(number: int) -> bytes:
    names = b"".join(b"<?n%d-%d?>" % (number, each) for each in range(NAMES))
    return flight(1000).replace(b"<flightleg", names + b"<flightleg", 1)


def test_each_node_delivers_events_beyond_its_share_of_names() -> None:
    with NetworkWorld(1) as world:
        world.add("a", "one")
        world.add("b", "one", join=["a"])
        world.add("c", "two", gateways=["b"])
        world.run(4.0)
        readers = [
            Reader(world, world.client(f"reader-{each}", each), ONE_ALTITUDE, durable="d")
            for each in "bc"
        ]
        world.run_until(lambda: all(reader.is_flowing for reader in readers))
        client: Any = world.client("publisher", "a")
        for number in range(EVENTS):
            world.wait(client.publish("asdi.zbw.tz", named(number), FLIGHT))
        late = Reader(world, world.client("late", "a"), ONE_ALTITUDE, durable="d", start=ALL)
        for reader in (*readers, late):
            read(world, reader, seconds=5.0)
            assert len(reader.events) == EVENTS and reader.gaps == []
        for name in "abc":
            statistics = world[name].matcher.statistics()
            assert statistics["undeclared_names"] < NAMES
