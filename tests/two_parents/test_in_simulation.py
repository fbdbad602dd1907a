"""Networks in virtual time in which two stacks carry the streams of each node."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from two_parents.stop_and_wait import StopAndWaitOptions, stop_and_wait
from two_parents.transport import TwoParentsOptions, two_parents

from broker.config.stacks import StackInstance
from broker.testing.datagram_network import DatagramFaults
from broker.testing.flights import Interest
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, name_of, read, read_logs
from tests.seeds import seeds

SEEDS = seeds(2, 20)
#: The first stream is carried by the transport with two parents.
RADAR, OTHER = "radar.zny", "asdi.zny"
HOST = "127.0.0.1"


def listen_of(name: str) -> str:
    return f"{HOST}:{9000 + ord(name)}"


def add_node(world: NetworkWorld, name: str, parents: Sequence[str], join: Sequence[str]) -> None:
    world.plugins["two_parents"] = two_parents, stop_and_wait
    options = TwoParentsOptions(listen=listen_of(name), parents=tuple(map(listen_of, parents)))
    stack = StackInstance(
        "radar", use="two_parents", options=options, link_options=StopAndWaitOptions()
    )
    world.add(name, "one", start=False, join=join)
    world.set_stacks(name, {"radar.>": stack})
    world.start(name)


def add_diamond(world: NetworkWorld) -> None:
    """A root, two nodes below it, and one below both."""
    for name, parents in {"r": "", "a": "r", "b": "r", "z": "ab"}.items():
        add_node(world, name, list(parents), world.names)
    world.run(4.0)


def publish(world: NetworkWorld, publisher: Publisher, count: int = 10) -> None:
    for _ in range(count):
        publisher.publish(RADAR)
        publisher.publish(OTHER)
        world.run(0.1)


def settle(world: NetworkWorld, publisher: Publisher, *readers: Reader, seconds: float) -> None:
    world.run_until(lambda: not publisher.client.unacknowledged)
    read(world, *readers, seconds=seconds)
    logs = read_logs(world)
    for reader in readers:
        assert reader.error is None
        found = [name_of(event) for event in reader.events]
        assert len(found) == len(set(found)), f"twice (seed {world.seed})"
        missing = reader.expected(logs).keys() - set(found)
        assert not missing, f"{sorted(missing)} are missing (seed {world.seed})"
        assert reader.gaps == []


def stack_of(world: NetworkWorld, name: str) -> dict[str, object]:
    transports = world[name].transports
    assert transports is not None
    (found,) = [each for each in transports.snapshot() if each["name"] == "radar"]
    assert found["error"] == ""
    return found


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("origin", ["r", "z"])
def test_events_come_on_two_ways_and_none_is_requested(seed: int, origin: str) -> None:
    with NetworkWorld(seed) as world:
        add_diamond(world)
        readers = [Reader(world, world.client(f"at-{name}", name)) for name in world.names]
        world.run_until(lambda: all(reader.is_flowing for reader in readers))
        world.run(2.0)
        publisher = Publisher(world.client("publisher", origin))
        publish(world, publisher)
        settle(world, publisher, *readers, seconds=10.0)
        assert stack_of(world, origin)["published"] == 10
        for name in set(world.names) - {origin}:
            assert stack_of(world, name)["received"] in (10, 20)
            traffic = world.network_of(name).traffic
            assert traffic is not None and traffic.receiver.counts.asked == 0
        doubled = "z" if origin == "r" else "r"
        assert stack_of(world, doubled)["repeated"] == 10


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("fault", ["loss", "dead parent", "cut", "everything lost"])
def test_no_event_is_lost_by_a_bad_network(seed: int, fault: str) -> None:
    with NetworkWorld(seed) as world:
        add_diamond(world)
        readers = [Reader(world, world.client(f"at-{name}", name)) for name in "rz"]
        world.run_until(lambda: all(reader.is_flowing for reader in readers))
        publisher = Publisher(world.client("publisher", "b"))
        publish(world, publisher)
        faults: dict[str, Callable[[], object]] = {
            "loss": lambda: _lose(world, 0.3),
            "dead parent": lambda: world.kill("a"),
            "cut": lambda: world.datagrams.cut((HOST, 9000 + ord("b")), (HOST, 9000 + ord("z"))),
            "everything lost": lambda: _lose(world, 1.0),
        }
        faults[fault]()
        publish(world, publisher)
        settle(world, publisher, *readers, seconds=30.0)


def _lose(world: NetworkWorld, share: float) -> None:
    world.datagrams.faults = DatagramFaults(loss=share, duplication=0.1, jitter=0.01)


def at_altitude(altitude: int) -> Interest:
    query = f"/flight/flightleg/altitude = {altitude}"
    return Interest(">", query, lambda _, each: each == altitude)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_batch_that_an_older_interest_selected_hides_no_event(seed: int) -> None:
    """Subscriptions begin while events for earlier ones flow."""
    with NetworkWorld(seed) as world:
        add_diamond(world)
        # Interest is active in the network of clusters before all parents have it.
        world.datagrams.faults = DatagramFaults(delay=0.1)
        readers = [Reader(world, world.client("reader-0", "z"), at_altitude(0))]
        world.run_until(lambda: readers[0].is_flowing)
        publisher = Publisher(world.client("publisher", "r"))
        for number in range(1, 7):
            readers.append(
                Reader(world, world.client(f"reader-{number}", "z"), at_altitude(number))
            )
            for _ in range(4):
                world.run(0.04)
                publisher.publish(RADAR, number)
                publisher.publish(RADAR, 0)
            world.run(2.0)
        world.run_until(lambda: all(reader.is_flowing for reader in readers))
        settle(world, publisher, *readers, seconds=20.0)
        assert all(reader.events for reader in readers)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("restarted", ["r", "a", "z"])
def test_a_restarted_node_takes_its_place_again(seed: int, restarted: str) -> None:
    with NetworkWorld(seed) as world:
        add_diamond(world)
        reader = Reader(world, world.client("reader", "z"), durable="d")
        world.run_until(lambda: reader.is_flowing)
        publisher = Publisher(world.client("publisher", "r"))
        publish(world, publisher)
        world.kill(restarted)
        if restarted != "r":
            publish(world, publisher)
        world.start(restarted)
        publish(world, publisher, 30)
        settle(world, publisher, reader, seconds=40.0)
        assert stack_of(world, restarted)["error"] == ""
