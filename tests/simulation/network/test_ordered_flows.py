"""Flows whose transport decides one order of delivery, own events included."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from broker.event.flow import is_default_flow
from broker.event.place import Mark
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import EventName, Reader, name_of, read, read_logs
from tests.seeds import seeds
from tests.simulation.network.ordering_transport import OrderingTransport

SEEDS = seeds(1, 6)
#: Carried by the ordering transport, and by default.
ORDERED, DEFAULT = "other", "asdi.zny.tz"
PATTERN = "other"


def add_node(
    transport: OrderingTransport, name: str, *patterns: str, join: Sequence[str] = ()
) -> None:
    transport.world.add(name, "one", start=False, join=join)
    transport.set_patterns(name, *patterns)
    transport.world.start(name)


def add_nodes(transport: OrderingTransport, *names: str) -> None:
    for index, name in enumerate(names):
        add_node(transport, name, PATTERN, join=names[:index])
    transport.world.run(4.0)


def restart(transport: OrderingTransport, name: str, *patterns: str) -> None:
    transport.world.kill(name)
    transport.set_patterns(name, *patterns)
    transport.world.start(name)


def readers_at(world: NetworkWorld, *names: str, durable: str = "") -> list[Reader]:
    readers = [Reader(world, world.client(f"at-{name}", name), durable=durable) for name in names]
    world.run_until(lambda: all(reader.is_flowing for reader in readers))
    return readers


def publishers_at(world: NetworkWorld, *names: str) -> list[Publisher]:
    return [Publisher(world.client(f"by-{name}", name)) for name in names]


def publish(world: NetworkWorld, publishers: Sequence[Publisher], count: int = 15) -> None:
    for _ in range(count):
        for publisher in publishers:
            publisher.publish(ORDERED)
            publisher.publish(DEFAULT)
            world.run(world.random.choice([0.0, 0.01, 0.1]))


def settle(
    world: NetworkWorld,
    publishers: Sequence[Publisher],
    readers: Sequence[Reader],
    seconds: float = 10.0,
) -> None:
    """Check that each event came once."""
    world.run_until(lambda: not any(each.client.unacknowledged for each in publishers))
    read(world, *readers, seconds=seconds)
    logs = read_logs(world)
    for reader in readers:
        assert reader.error is None
        found = [name_of(event) for event in reader.events]
        assert len(found) == len(set(found)), f"twice (seed {world.seed})"
        missing = reader.expected(logs).keys() - set(found)
        assert not missing, f"{sorted(missing)} are missing (seed {world.seed})"
        assert reader.gaps == []
        newest: dict[str, Mark] = {}
        for event in reader.events:
            assert newest.get(event.place.origin, (0, 0)) < event.place.mark
            newest[event.place.origin] = event.place.mark


def ordered_names(reader: Reader) -> list[EventName]:
    return [name_of(each) for each in reader.events if not is_default_flow(each.place.origin)]


def check_one_order(world: NetworkWorld, readers: Sequence[Reader]) -> list[EventName]:
    orders = [ordered_names(reader) for reader in readers]
    assert orders[0] and all(order == orders[0] for order in orders), f"seed {world.seed}"
    return orders[0]


def flow_of(world: NetworkWorld, name: str) -> str:
    return f"{world[name].event_log.origin}/{PATTERN}"


def processed(reader: Reader) -> dict[str, Mark]:
    assert reader.subscription is not None
    return dict(reader.subscription.position.marks)


@pytest.mark.parametrize("seed", seeds(1, 12))
def test_all_nodes_deliver_own_and_other_events_in_the_order_of_the_transport(seed: int) -> None:
    with NetworkWorld(seed) as world:
        names = ("a", "b", "c")
        transport = OrderingTransport(world)
        add_nodes(transport, *names)
        readers = readers_at(world, *names)
        publishers = publishers_at(world, *names)
        publish(world, publishers)
        settle(world, publishers, readers)
        order = check_one_order(world, readers)
        sequenced = [
            (batch.flow, event.mark) for batch in transport.order for event in batch.events
        ]
        assert len(order) == len(sequenced)
        places = [
            (event.place.origin, event.place.mark)
            for event in readers[0].events
            if not is_default_flow(event.place.origin)
        ]
        assert places == sequenced
        assert not any(end.recovered_events for end in transport.ends.values())
        for reader, name in zip(readers, names, strict=True):
            assert reader.wrong_liveness == []
            end = world[name].event_log.own_end
            marks = processed(reader)
            assert marks[world[name].event_log.origin] == marks[flow_of(world, name)] == end


@pytest.mark.parametrize("seed", SEEDS)
def test_copies_that_a_full_disk_rejected_come_again(seed: int) -> None:
    with NetworkWorld(seed, thread_delay=0.02) as world:
        transport = OrderingTransport(world)
        add_nodes(transport, "a", "b")
        readers = readers_at(world, "a", "b")
        publishers = publishers_at(world, "a", "b")
        for _ in range(6):
            publish(world, publishers, 3)
            world.run(world.random.uniform(0.0, 0.1))
            world.set_disk_full("a", True)
            world.run(world.random.uniform(0.1, 2.0))
            world.set_disk_full("a", False)
        world.run(5.0)
        settle(world, publishers, readers, 70.0)
        assert world["a"].event_log.failures


@pytest.mark.parametrize("seed", seeds(1, 20))
def test_random_faults_lose_and_repeat_no_event(seed: int) -> None:
    with NetworkWorld(seed) as world:
        names = ("a", "b", "c")
        transport = OrderingTransport(world, 0.2, lambda _: world.random.random() < 0.1)
        add_nodes(transport, *names)
        readers = readers_at(world, *names, durable="d")
        publishers = publishers_at(world, *names)
        patterns: dict[str, tuple[str, ...]] = dict.fromkeys(names, (PATTERN,))
        for _ in range(10):
            name, other = world.random.sample(names, 2)
            match world.random.choice(["none", "restart", "cut", "change", "deaf"]):
                case "restart":
                    restart(transport, name, *patterns[name])
                case "cut":
                    world.cut(name, other)
                case "change":
                    patterns[name] = () if patterns[name] else (PATTERN,)
                    restart(transport, name, *patterns[name])
                case "deaf":
                    transport.ends[name].is_deaf = True
            publish(world, publishers, 2)
            read(world, *readers, seconds=world.random.uniform(0.1, 2.0))
        settle(world, publishers, readers, 60.0)


def test_queue_policies_drop_no_event_of_an_ordered_flow() -> None:
    """Its transport may wait for each event."""
    with NetworkWorld(1) as world:
        add_nodes(OrderingTransport(world), "a", "b")
        reader = Reader(world, world.client("reader", "b"), queue="coalesce")
        world.run_until(lambda: reader.is_flowing)
        world.run(3.0)
        driver, origin = world.network_of("b").driver, world["a"].event_log.origin
        assert driver.may_drop(origin)
        assert not driver.may_drop(f"{origin}/{PATTERN}")
