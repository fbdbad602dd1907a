"""A slow subscriber with a queue policy reads events of another node, which knows the policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs
import pytest

from broker.client.received import Gap
from broker.cluster.address import Address
from broker.config import Settings
from broker.errors import QueueFull
from broker.streams.queue_policy import BLOCK, IQueuePolicy
from broker.testing.flights import INTERESTS
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import LogEntries, Reader, read_logs
from tests.simulation.test_slow_subscribers import QUEUE, SLOW

BY_ALTITUDE = "coalesce:/flight/flightleg/altitude"


@pytest.fixture(params=["one cluster", "two clusters"])
def world(request: pytest.FixtureRequest) -> Iterator[NetworkWorld]:
    settings = Settings()
    settings = attrs.evolve(
        settings,
        limits=attrs.evolve(settings.limits, window_bytes=8_192),
        queue=attrs.evolve(settings.queue, events=2 * QUEUE),
    )
    with NetworkWorld(1, settings=settings) as world:
        if request.param == "one cluster":
            world.add("a", "one")
            world.add("b", "one", join=["a"])
        else:
            world.add("a", "one")
            world.add("b", "two", gateways=["a"])
        world.run(8.0)
        yield world


def installed_policies(world: NetworkWorld) -> Mapping[Address, IQueuePolicy]:
    """Return the policy at node `a` of all interest of each destination."""
    network = world.network_of("a")
    remote, flow = network.driver.remote_interest, network.event_log.origin
    return {
        destination: remote.queue_policy(destination, flow)
        for destination in remote.count_by_destination()
    }


def publish(world: NetworkWorld, publisher: Publisher, count: int, altitudes: int = 11) -> None:
    for number in range(count):
        publisher.publish(altitude=number % altitudes)
        world.run(0.01)
    world.run_until(lambda: not publisher.client.unacknowledged)
    world.run(2.0)


def read(world: NetworkWorld, reader: Reader, seconds: float) -> None:
    end = world.clock.seconds() + seconds
    while world.clock.seconds() < end:
        reader.read()
        world.run(0.05)


def check_gaps(reader: Reader, logs: LogEntries) -> None:
    """A gap counts exactly the events between its bounds, in order with the events."""
    (log,) = [entries for entries in logs.values() if entries]
    got = {event.place.mark for event in reader.events}
    last = (0, 0)
    for item in reader.items:
        if isinstance(item, Gap):
            inside = [e.mark for e in log if item.first.mark <= e.mark <= item.last.mark]
            assert last < item.first.mark and len(inside) == item.count
            assert not got & set(inside)
            last = item.last.mark
        else:
            assert last < item.place.mark
            last = item.place.mark
    assert len(got) + sum(gap.count for gap in reader.gaps) == len(log)


@pytest.mark.parametrize(
    ("world", "queue"),
    [
        ("one cluster", ""),
        ("two clusters", "drop-oldest"),
        ("one cluster", "drop-newest"),
        ("two clusters", "coalesce"),
        ("one cluster", BY_ALTITUDE),
        ("two clusters", "block"),
    ],
    indirect=["world"],
)
def test_each_event_of_another_node_comes_or_is_reported(world: NetworkWorld, queue: str) -> None:
    publisher = Publisher(world.client("publisher", "a"))
    client = world.client("slow", "b", window_bytes=SLOW)
    reader = Reader(world, client, queue=queue)
    world.run_until(lambda: reader.is_flowing)
    world.run(2.0)
    ((_, policy),) = installed_policies(world).items()
    assert policy.text == (queue or "block")
    for _ in range(2):
        publish(world, publisher, 200)
        world.check_outcomes()
        read(world, reader, 1.0)
    read(world, reader, 20.0)
    logs = read_logs(world)
    reader.check(logs)
    check_gaps(reader, logs)
    assert bool(reader.gaps) is (queue != "block")
    if queue in ("coalesce", BY_ALTITUDE):
        assert {gap.reason for gap in reader.gaps} == {"coalesced"}
    world.check_outcomes()
    # A second subscription without a policy must get everything.
    second = Reader(world, world.client("second", "b"))
    world.run_until(lambda: second.is_flowing)
    world.run(2.0)
    assert list(installed_policies(world).values()) == [BLOCK]
    world.wait(client.close())
    world.run(70.0)
    assert list(installed_policies(world).values()) == [BLOCK]


@pytest.mark.parametrize("world", ["two clusters"], indirect=True)
def test_a_full_queue_ends_a_subscription_to_another_node(world: NetworkWorld) -> None:
    publisher = Publisher(world.client("publisher", "a"))
    # A durable subscription does not become live behind an origin without events.
    for each in (publisher, Publisher(world.client("other", "b"))):
        publish(world, each, 1)
    client = world.client("slow", "b", window_bytes=SLOW)
    reader = Reader(world, client, durable="d", queue="fail")
    world.run_until(lambda: reader.is_flowing)
    world.run(2.0)
    assert [policy.text for policy in installed_policies(world).values()] == ["fail"]
    publish(world, publisher, 300)
    read(world, reader, 5.0)
    assert reader.subscription is not None
    assert isinstance(reader.subscription._error, QueueFull)
    world.run(15.0)
    # The log feeds it later.
    assert list(installed_policies(world).values()) == [BLOCK]
    again = Reader(world, client, durable="d")
    read(world, again, 20.0)
    offsets = [event.place.offset for event in (*reader.events, *again.events)]
    assert sorted(set(offsets)) == list(range(2, 302))
    assert reader.gaps == again.gaps == []
    world.check_outcomes()


def test_the_policy_of_a_flow_is_the_least_lossy_of_its_interest(world: NetworkWorld) -> None:
    low, streams = INTERESTS[1], INTERESTS[4]
    first = Reader(world, world.client("first", "b"), low, queue="drop-newest")
    world.run_until(lambda: first.is_flowing)
    world.run(2.0)
    network = world.network_of("a")
    remote, origin = network.driver.remote_interest, network.event_log.origin
    (destination,) = remote.count_by_destination()
    assert remote.queue_policy(destination, origin).text == "drop-newest"
    assert remote.queue_policy(destination, f"{origin}/elsewhere.>") == BLOCK
    assert remote.queue_policy(Address(("elsewhere",), "x"), origin) == BLOCK
    second = Reader(world, world.client("second", "b"), streams, queue="fail")
    world.run_until(lambda: second.is_flowing)
    world.run(2.0)
    assert remote.queue_policy(destination, origin) == BLOCK
    assert remote.queue_policy(destination, f"{origin}/asdi.>").text == "drop-newest"
    assert remote.queue_policy(destination, f"{origin}/{streams.pattern}").text == "fail"
    world.wait(second.client.close())
    world.run(70.0)
    assert remote.queue_policy(destination, origin).text == "drop-newest"
    (number,) = remote._numbers.values()
    remote.widen_suspended(number)
    assert remote.queue_policy(destination, origin) == BLOCK


def test_a_restarted_node_announces_its_policies_again(world: NetworkWorld) -> None:
    reader = Reader(world, world.client("slow", "b"), queue="drop-newest")
    world.run_until(lambda: reader.is_flowing)
    world.run(2.0)
    world.kill("b")
    world.run(5.0)
    world.start("b")
    world.run(60.0)
    assert [policy.text for policy in installed_policies(world).values()] == ["drop-newest"]
