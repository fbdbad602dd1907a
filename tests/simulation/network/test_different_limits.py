"""Nodes with different `limits.max_markup`: one refuses an event that another one has accepted.

Its subscribers get a gap, and no event behind it waits.
"""

from __future__ import annotations

import unittest
from collections.abc import Iterator

import attrs
import pytest

from broker.client.received import ALL, Gap, Receipt
from broker.config import Settings
from broker.config.stacks import DEFAULT_STACK
from broker.event.envelope import EventType
from broker.testing.determinism import deterministic
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read
from broker.testing.transport_network import CARRIED, EVERYTHING
from tests.simulation.network.dcp_mesh import LEAVES, MeshCase
from tests.simulation.network.test_rcm import Group
from tests.simulation.network.test_replicas import GUARDED

STREAM = "asdi.zbw.tz"
MAX_MARKUP = 60
LEG = b"<flightleg><altitude>2</altitude></flightleg>"
LEGS = 40
LARGE = b"<flight><id>F</id>%s</flight>" % (LEG * LEGS)
GAP = "too-large"


def limited(settings: Settings = Settings()) -> Settings:  # noqa: B008
    return attrs.evolve(settings, limits=attrs.evolve(settings.limits, max_markup=MAX_MARKUP))


def limit_markup(world: NetworkWorld, name: str) -> None:
    """Lower the limit of a running node."""
    examiner = world[name].matcher._examiner  # type: ignore[attr-defined]
    examiner._limits = attrs.evolve(examiner._limits, max_markup=MAX_MARKUP)


def publish(
    world: NetworkWorld, publisher: Publisher, stream: str = STREAM, altitude: int = 0
) -> None:
    """Publish a large event, and one behind it."""
    publishing = publisher.client.publish(stream, LARGE, EventType("flight", "1.0"))
    assert isinstance(world.wait(publishing), Receipt)
    publisher.publish(stream, altitude)


def items_of(reader: Reader) -> list[int | str]:
    """Return the number of legs of each event, and the reason of each gap."""
    assert all(each.count == 1 for each in reader.gaps)
    return [
        each.reason if isinstance(each, Gap) else each.document.count(b"<flightleg")
        for each in reader.items
    ]


@pytest.fixture
def world() -> Iterator[NetworkWorld]:
    with NetworkWorld(0, archived=True) as world:
        yield world


def test_routed_events_become_gaps_at_the_node_and_behind_it(world: NetworkWorld) -> None:
    world.add("a", "one")
    world.add("b", "two", gateways=["a"], settings=limited())
    world.add("c", "three", gateways=["b"])
    world.run(5.0)
    readers = {
        name: Reader(world, world.client(f"at-{name}", name), EVERYTHING, durable="d")
        for name in "abc"
    }
    publisher = Publisher(world.client("publisher", "a"))
    world.run_until(lambda: all(each.is_flowing for each in readers.values()))
    world.run(2.0)
    publish(world, publisher)
    read(world, *readers.values(), seconds=5.0)
    found = {name: items_of(each) for name, each in readers.items()}
    assert found == {"a": [LEGS, 1], "b": [GAP, 1], "c": [GAP, 1]}
    assert world["b"].matcher.statistics()["refused.too-large"] > 0


def test_a_returning_client_gets_the_event_from_its_origin(world: NetworkWorld) -> None:
    """The log that a recovery reads has accepted it."""
    world.add("a", "one")
    world.add("b", "two", gateways=["a"], settings=limited())
    world.run(5.0)
    before = Reader(world, world.client("rover", "a"), EVERYTHING, durable="d")
    publisher = Publisher(world.client("publisher", "a"))
    world.run_until(lambda: before.is_flowing)
    world.kill_client(before.client)
    publish(world, publisher)
    returning = Reader(world, world.client("rover", "b", incarnation=2), EVERYTHING, durable="d")
    read(world, returning, seconds=20.0)
    assert items_of(returning) == [LEGS, 1]


def test_a_restarted_node_continues_behind_the_event(world: NetworkWorld) -> None:
    world.add("a", "one")
    world.add("b", "one", join=["a"], settings=limited())
    world.run(5.0)
    reader = Reader(world, world.client("reader", "b"), EVERYTHING, durable="d")
    publisher = Publisher(world.client("publisher", "a"))
    world.run_until(lambda: reader.is_flowing)
    world.run(2.0)
    world.kill("b")
    publish(world, publisher)
    world.start("b")
    world.run_until(lambda: world.are_linked("a", "b"))
    read(world, reader, seconds=20.0)
    publish(world, publisher)
    read(world, reader, seconds=5.0)
    assert items_of(reader) == [GAP, 1, GAP, 1]


def test_the_archive_replaces_a_dead_origin(world: NetworkWorld) -> None:
    world.add("a", "one")
    world.add("b", "two", gateways=["a"], settings=limited())
    world.run(4.0)
    publisher = Publisher(world.client("publisher", "a"))
    reader = Reader(world, world.client("reader", "b"), EVERYTHING)
    world.run_until(lambda: reader.is_flowing)
    publisher.publish(STREAM, 0)
    read(world, reader, seconds=2.0)
    world.cut("a", "b", refuse=True)
    publish(world, publisher)
    world.run(8.0)
    world.kill("a")
    read(world, reader, seconds=180.0)
    assert items_of(reader) == [1, GAP, 1]
    late = Reader(world, world.client("late", "b"), EVERYTHING, start=ALL)
    read(world, late, seconds=30.0)
    assert items_of(late) == [1, LEGS, 1]


def test_a_replica_has_the_event(world: NetworkWorld) -> None:
    """A replica is stored unread: it acknowledges the event, and delivers it."""
    world.add("owner", "c", settings=GUARDED)
    world.add("keeper", "c", join=["owner"], settings=limited())
    world.add("zone", "far", gateways=["keeper"])
    world.run(5.0)
    reader = Reader(world, world.client("reader", "zone"), EVERYTHING)
    publisher = Publisher(world.client("publisher", "owner"))
    world.run_until(lambda: reader.is_flowing)
    world.cut("keeper", "zone", refuse=True)
    publish(world, publisher)
    world.run(1.0)
    world.kill("owner")
    world.lose_disk("owner")
    world.heal("keeper", "zone")
    read(world, reader, seconds=60.0)
    assert items_of(reader) == [LEGS, 1]


@pytest.mark.parametrize("order", ["hybrid", "sequencer"])
@pytest.mark.parametrize("name", ["n0", "n1"])
def test_a_group_keeps_its_order(order: str, name: str) -> None:
    with deterministic(7), NetworkWorld(7) as world:
        network = Group(world, order, 3).network
        readers = {each: network.subscribe(f"at-{each}", each, durable="d") for each in world.names}
        limit_markup(world, name)
        publish(world, network.publishers[2], CARRIED)
        world.run(5.0)
        for publisher in network.publishers:
            publisher.publish(CARRIED, 3)
        read(world, *readers.values(), seconds=30.0)
        for each, reader in readers.items():
            assert items_of(reader) == [GAP if each == name else LEGS, *[1] * 4]
        assert network.state_of(name)["error"] == ""


class TestMesh(MeshCase, unittest.TestCase):
    def test_a_router_passes_on_what_it_refuses(self) -> None:
        self.check_mesh("n2")

    def test_a_leaf_that_refuses_an_event_gets_the_next_one(self) -> None:
        self.check_mesh("n4")

    def check_mesh(self, name: str) -> None:
        with self.network(0, 6, feed=DEFAULT_STACK) as network:
            world = network.world
            limit_markup(world, name)
            readers = {
                each: network.subscribe(f"at-{each}", each, durable="d")
                for each in ("n2", "n3", *LEAVES)
            }
            publisher = network.add_publisher("n0")
            world.run_until(lambda: all(len(self.parents(network, n)) == 2 for n in LEAVES))
            publish(world, publisher, CARRIED)
            read(world, *readers.values(), seconds=20.0)
            for each, reader in readers.items():
                self.assertEqual(items_of(reader), [GAP if each == name else LEGS, 1])
            self.assertEqual(network.state_of(name)["error"], "")
