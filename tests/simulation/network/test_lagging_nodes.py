"""A node behind a slow link gets events as the queue policies of its clients say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import attrs
import pytest

from broker.client.received import since
from broker.config import Settings
from broker.config.faults import FaultSettings
from broker.config.stacks import DEFAULT_STACK, StackInstance
from broker.errors import QueueFull
from broker.event.envelope import SecurityLevel
from broker.streams.queue_policy import BLOCK
from broker.testing.determinism import deterministic
from broker.testing.flights import INTERESTS, Interest
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read_logs
from plugins.mspaces.settings import MspacesSettings
from tests.simulation.network.test_queue_policies import BY_ALTITUDE, check_gaps
from tests.simulation.network.test_stack_instances import set_stacks

QUEUE = 60
RADAR = Interest("asdi.>", "true()", lambda stream, altitude: stream.startswith("asdi."))
BOATS = INTERESTS[4]
#: Events between two of one key.
KEYS = 11
INTERVAL = 0.005
#: The link takes about a tenth of the events.
BYTES_PER_SECOND = 26_000
#: Events; the queue of a node with a policy never has so many, one without a policy exceeds it.
LEAST_LAG = 1_200


def slow_settings(**limits: int) -> Settings:
    settings = Settings()
    # A full link has little in its buffer.
    links = MspacesSettings(send_buffer_bytes=64 << 10, liveness=60.0)
    return attrs.evolve(
        settings,
        limits=attrs.evolve(settings.limits, **limits),
        queue=attrs.evolve(settings.queue, events=QUEUE),
        stacks=(StackInstance(DEFAULT_STACK, link_options=links),),
        faults=(
            FaultSettings(
                kind="throttle", bytes_per_second=BYTES_PER_SECOND, links="b", direction="out"
            ),
        ),
    )


def unthrottle(world: NetworkWorld, name: str) -> None:
    """Restart a node without the fault."""
    world.kill(name)
    process = world._processes[name]
    process.settings = attrs.evolve(process.settings, faults=(), stacks=())
    world.start(name)


@pytest.fixture(params=["one cluster"])
def world(request: pytest.FixtureRequest) -> Iterator[NetworkWorld]:
    """Node `a` publishes, over the slow link to node `b`."""
    with deterministic(1), NetworkWorld(1, settings=slow_settings()) as world:
        world.add("a", "one")
        if request.param == "one cluster":
            world.add("b", "one", join=["a"])
        else:
            world.add("b", "two", gateways=["a"])
        world.run(8.0)
        yield world


def subscribe(world: NetworkWorld, name: str, queue: str = "", durable: str = "") -> Reader:
    reader = Reader(world, world.client(name, "b"), queue=queue, durable=durable)
    world.run_until(lambda: reader.is_flowing)
    world.run(3.0)
    return reader


def publish(
    world: NetworkWorld, publisher: Publisher, count: int, *readers: Reader, stream: str = ""
) -> list[int]:
    """Return the number of events that the first reader lacks, from time to time."""
    lags = []
    for number in range(count):
        stream = stream or "asdi.zbw.tz"
        publisher.publish(stream, altitude=number % KEYS)
        world.run(INTERVAL)
        for reader in readers:
            reader.read()
        if readers and number % 100 == 99:
            newest = max((event.place.offset for event in readers[0].events), default=0)
            lags.append(world["a"].event_log.own_end[1] - newest)
    world.run_until(lambda: not publisher.client.unacknowledged)
    return lags


def read(world: NetworkWorld, *readers: Reader, seconds: float = 40.0) -> None:
    for _ in range(int(seconds / 0.1)):
        world.run(0.1)
        for reader in readers:
            reader.read()


def dropped_between_nodes(world: NetworkWorld) -> int:
    traffic = world.network_of("b").traffic
    assert traffic is not None
    return traffic.receiver.counts.policy_dropped


def check(world: NetworkWorld, *readers: Reader) -> None:
    logs = read_logs(world)
    for reader in readers:
        reader.check(logs)
    world.check_outcomes()


@pytest.mark.parametrize(
    ("world", "queue", "reasons"),
    [
        ("one cluster", "drop-oldest", {"slow"}),
        ("two clusters", "drop-newest", {"slow"}),
        ("one cluster", "coalesce", {"coalesced"}),
        ("two clusters", BY_ALTITUDE, {"coalesced"}),
    ],
    indirect=["world"],
)
def test_each_event_comes_or_is_reported(
    world: NetworkWorld, queue: str, reasons: set[str]
) -> None:
    publisher = Publisher(world.client("publisher", "a"))
    reader = subscribe(world, "reader", queue)
    publish(world, publisher, 800, reader)
    read(world, reader, seconds=20.0)
    check(world, reader)
    check_gaps(reader, read_logs(world))
    assert {gap.reason for gap in reader.gaps} == reasons
    dropped = sum(gap.count for gap in reader.gaps)
    assert dropped == dropped_between_nodes(world) > 250


@pytest.mark.parametrize("queue", ["drop-oldest", "coalesce"])
def test_the_lag_of_a_node_is_bounded_by_its_queue(world: NetworkWorld, queue: str) -> None:
    publisher = Publisher(world.client("publisher", "a"))
    reader = subscribe(world, "reader", queue)
    lags = publish(world, publisher, 2_500, reader)
    # From a page to the next one, the link carries what waited in its buffer.
    assert max(lags) < LEAST_LAG
    read(world, reader, seconds=10.0)
    newest = max(event.place.offset for event in reader.events)
    assert newest == world["a"].event_log.own_end[1] == 2_500
    check(world, reader)


def test_without_a_named_policy_the_lag_grows_and_nothing_is_dropped(world: NetworkWorld) -> None:
    publisher = Publisher(world.client("publisher", "a"))
    reader = subscribe(world, "reader")
    lags = publish(world, publisher, 2_500, reader)
    assert max(lags) > LEAST_LAG
    read(world, reader, seconds=60.0)
    assert len(reader.events) == 2_500 and reader.gaps == []
    check(world, reader)


def test_one_subscription_without_a_policy_keeps_all_events(world: NetworkWorld) -> None:
    publisher = Publisher(world.client("publisher", "a"))
    reader = subscribe(world, "reader", "coalesce")
    publish(world, publisher, 1_000, reader)
    durable = subscribe(world, "durable", durable="d")
    before = dropped_between_nodes(world)
    publish(world, publisher, 600, reader, durable)
    read(world, reader, durable)
    check(world, reader, durable)
    assert before > 0 and durable.gaps == []
    # Pages that were on their way are refused.
    assert dropped_between_nodes(world) == before
    world.wait(durable.client.close())
    unthrottle(world, "a")
    read(world, reader)
    # An absent durable subscription needs all events too.
    publish(world, publisher, 200, reader)
    read(world, reader)
    assert dropped_between_nodes(world) == before
    check(world, reader)


def test_later_subscriptions_recover_the_dropped_events(world: NetworkWorld) -> None:
    publisher = Publisher(world.client("publisher", "a"))
    reader = subscribe(world, "reader", "coalesce")
    publish(world, publisher, 5, reader)
    read(world, reader, seconds=1.0)
    assert reader.subscription is not None
    position = reader.subscription.position
    publish(world, publisher, 900, reader)
    read(world, reader, seconds=20.0)
    check(world, reader)
    assert sum(gap.count for gap in reader.gaps) > 400
    unthrottle(world, "a")
    read(world, reader, seconds=20.0)
    later = Reader(world, world.client("later", "b"), start=since(position))
    durable = Reader(world, world.client("durable", "b"), start=since(position), durable="d")
    read(world, reader, later, durable, seconds=30.0)
    for each in (later, durable):
        assert [event.place.offset for event in each.events] == list(range(6, 906))
        assert each.gaps == [] and each.error is None


@pytest.mark.parametrize("durable", ["", "d"])
def test_a_full_queue_ends_a_subscription_with_fail_and_loses_nothing(
    world: NetworkWorld, durable: str
) -> None:
    publisher = Publisher(world.client("publisher", "a"))
    publish(world, publisher, 1)
    reader = subscribe(world, "reader", "fail", durable)
    publish(world, publisher, 1_000, reader)
    read(world, reader, seconds=5.0)
    assert reader.subscription is not None
    error = reader.subscription._error
    assert isinstance(error, QueueFull) and "another node" in str(error)
    position = reader.subscription.position
    assert reader.gaps == [] and dropped_between_nodes(world) == 0
    unthrottle(world, "a")
    read(world, seconds=20.0)
    start = None if durable else since(position)
    again = Reader(world, reader.client, start=start, durable=durable)
    read(world, again, seconds=80.0)
    offsets = [event.place.offset for event in (*reader.events, *again.events)]
    assert sorted(set(offsets)) == list(range(offsets[0], 1_002)) and offsets[0] < 3
    assert again.gaps == []


def test_a_slow_client_behind_a_slow_link_gets_all_gaps_in_their_places() -> None:
    settings = slow_settings(window_bytes=8_192)
    with NetworkWorld(1, settings=settings) as world:
        world.add("a", "one")
        world.add("b", "one", join=["a"])
        world.run(8.0)
        publisher = Publisher(world.client("publisher", "a"))
        client = world.client("reader", "b", window_bytes=4_000)
        reader = Reader(world, client, queue=BY_ALTITUDE)
        world.run_until(lambda: reader.is_flowing)
        world.run(3.0)
        for _ in range(8):
            publish(world, publisher, 250)
            reader.read()
        read(world, reader)
        check(world, reader)
        check_gaps(reader, read_logs(world))
        dropped = world["b"].output.count_dropped_by_policy()["coalesce"]
        assert dropped > 0 and dropped_between_nodes(world) > 0


@pytest.mark.parametrize("killed", ["a", "b"])
def test_restarts_lose_nothing_else(world: NetworkWorld, killed: str) -> None:
    publisher = Publisher(world.client("publisher", "a"))
    reader = subscribe(world, "reader", "coalesce")
    publish(world, publisher, 800, reader)
    world.kill(killed)
    world.run(2.0)
    world.start(killed)
    publish(world, publisher, 500, reader)
    read(world, reader, seconds=120.0)
    check(world, reader)
    assert {gap.reason for gap in reader.gaps} <= {"slow", "coalesced"}


def test_the_flow_of_an_instance_has_its_own_policy(world: NetworkWorld) -> None:
    stacks = {"asdi.>": StackInstance("radar", use=DEFAULT_STACK)}
    for name in ("a", "b"):
        set_stacks(world, name, stacks)
        process = world._processes[name]
        process.settings = attrs.evolve(
            process.settings, stacks=(*process.settings.stacks, *slow_settings().stacks)
        )
        world.kill(name)
        world.start(name)
    world.run(8.0)
    radar = Publisher(world.client("radar", "a"))
    other = Publisher(world.client("other", "a"))
    coalescing = Reader(world, world.client("coalescing", "b"), RADAR, queue="coalesce")
    durable = Reader(world, world.client("durable", "b"), BOATS, durable="d")
    world.run_until(lambda: coalescing.is_flowing and durable.is_flowing)
    world.run(3.0)
    for number in range(800):
        radar.publish("asdi.zbw.tz", altitude=number % KEYS)
        if number % 20 == 0:
            other.publish("other", altitude=number)
        world.run(INTERVAL)
        coalescing.read()
        durable.read()
    read(world, coalescing, durable)
    check(world, coalescing, durable)
    assert Counter(gap.reason for gap in coalescing.gaps).keys() == {"coalesced"}
    assert len(durable.events) == 40 and durable.gaps == []


def test_no_gap_reveals_events_above_the_clearance(world: NetworkWorld) -> None:
    """The client may read `med`; the link carries all levels."""
    publisher = Publisher(world.client("publisher", "a"))
    reader = subscribe(world, "reader", "drop-oldest")
    for number in range(800):
        level = SecurityLevel.LOW if number % 3 else SecurityLevel.MED
        publisher.publish(altitude=number, level=level)
        world.run(INTERVAL)
        reader.read()
    read(world, reader)
    check(world, reader)
    check_gaps(reader, read_logs(world))
    assert reader.gaps


def test_policies_of_a_node_end_with_its_subscriptions(world: NetworkWorld) -> None:
    reader = subscribe(world, "reader", "coalesce")
    driver = world.network_of("b").driver
    origin = world["a"].event_log.origin
    assert driver.may_drop(origin)
    driver.has_lagging_subscription = lambda _: True
    assert not driver.may_drop(origin)
    world.wait(reader.client.close())
    world.run(70.0)
    assert driver.local_interest.queue_policy(origin) == BLOCK
