"""Flows whose transport decides one order of delivery, own events included."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from broker.client.received import ALL, since
from broker.event.flow import is_default_flow
from broker.event.place import Mark
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import EventName, Reader, name_of, read, read_logs
from tests.seeds import seeds
from tests.simulation.network.ordering_transport import OrderingTransport

SEEDS = seeds(2, 6)
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


@pytest.mark.parametrize("names", [("a", "b"), ("a", "b", "c")])
@pytest.mark.parametrize("seed", seeds(3, 12))
def test_all_nodes_deliver_own_and_other_events_in_one_order(
    seed: int, names: tuple[str, ...]
) -> None:
    with NetworkWorld(seed) as world:
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
def test_withheld_events_do_not_hold_the_default_flow_back(seed: int) -> None:
    with NetworkWorld(seed) as world:
        transport = OrderingTransport(world)
        add_nodes(transport, "a", "b")
        (reader,) = readers_at(world, "a")
        transport.ends["a"].is_deaf = True
        (publisher,) = publishers_at(world, "a")
        publisher.publish(ORDERED)
        publisher.publish(DEFAULT)
        world.run_until(lambda: len(publisher.receipts) == 2)
        read(world, reader, seconds=0.3)
        assert [event.header.stream for event in reader.events] == [DEFAULT]
        marks = processed(reader)
        end = world["a"].event_log.own_end
        assert marks[world["a"].event_log.origin] == end
        assert marks.get(flow_of(world, "a"), (0, 0)) < end
        settle(world, [publisher], [reader])
        assert transport.ends["a"].recovered_events == 1
        assert processed(reader)[flow_of(world, "a")] == end


@pytest.mark.parametrize("seed", SEEDS)
def test_an_origin_that_restarts_before_the_hand_over_releases_its_events(seed: int) -> None:
    with NetworkWorld(seed) as world:
        transport = OrderingTransport(world)
        add_nodes(transport, "a", "b")
        readers = readers_at(world, "a", "b", durable="d")
        publishers = publishers_at(world, "a")
        publish(world, publishers, 3)
        read(world, *readers, seconds=1.0)
        transport.ends["a"].is_deaf = True
        publish(world, publishers, 3)
        world.run_until(lambda: not publishers[0].client.unacknowledged)
        before = len(ordered_names(readers[0]))
        restart(transport, "a", PATTERN)
        publish(world, publishers, 3)
        settle(world, publishers, readers, 20.0)
        assert before == 3 and len(check_one_order(world, readers)) == 9


@pytest.mark.parametrize("seed", SEEDS)
def test_a_durable_subscriber_gets_the_same_order_from_the_log(seed: int) -> None:
    with NetworkWorld(seed) as world:
        transport = OrderingTransport(world)
        add_nodes(transport, "a", "b")
        live, away = readers_at(world, "a"), readers_at(world, "b", durable="d")
        publishers = publishers_at(world, "a", "b")
        publish(world, publishers, 5)
        read(world, *live, *away, seconds=1.0)
        world.kill_client(away[0].client)
        publish(world, publishers)
        back = Reader(world, world.client("at-b", "b", incarnation=2), durable="d")
        world.run_until(lambda: back.is_flowing)
        publish(world, publishers, 5)
        settle(world, publishers, live)
        read(world, back, seconds=2.0)
        assert back.gaps == []
        # The position of a killed client may be slightly old.
        first = away[0].events
        assert len({name_of(each) for each in [*first, *back.events]}) == 100
        order, late = ordered_names(live[0]), ordered_names(back)
        assert late == order[len(order) - len(late) :]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_late_subscriber_gets_the_whole_past_once(seed: int) -> None:
    with NetworkWorld(seed) as world:
        transport = OrderingTransport(world)
        add_nodes(transport, "a", "b")
        readers = readers_at(world, "a", "b")
        publishers = publishers_at(world, "a", "b")
        publish(world, publishers, 10)
        late = [Reader(world, world.client(f"late-{n}", n), start=ALL) for n in ("a", "b")]
        publish(world, publishers, 10)
        settle(world, publishers, [*readers, *late], 20.0)


@pytest.mark.parametrize("lost", [1, 2, 3])
@pytest.mark.parametrize("seed", SEEDS)
def test_events_that_the_transport_loses_come_from_the_log(seed: int, lost: int) -> None:
    with NetworkWorld(seed) as world:
        transport = OrderingTransport(world, 0.05, lambda number: number % lost == 0)
        add_nodes(transport, "a", "b")
        readers = readers_at(world, "a", "b")
        publishers = publishers_at(world, "a", "b")
        publish(world, publishers)
        settle(world, publishers, readers)
        assert transport.ends["a"].recovered_events and transport.ends["b"].recovered_events


@pytest.mark.parametrize("seed", SEEDS)
def test_a_transport_that_stops_with_an_error_withholds_nothing(seed: int) -> None:
    with NetworkWorld(seed) as world:
        transport = OrderingTransport(world)
        add_nodes(transport, "a", "b")
        readers = readers_at(world, "a", "b")
        publishers = publishers_at(world, "a")
        publish(world, publishers, 5)
        transport.ends["a"].context.fail(RuntimeError("broken"))
        publish(world, publishers, 5)
        settle(world, publishers, readers)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_stream_may_get_and_lose_an_ordering_stack(seed: int) -> None:
    with NetworkWorld(seed) as world:
        transport = OrderingTransport(world, 0.1)
        for name, join in (("a", ()), ("b", ("a",))):
            add_node(transport, name, join=join)
        world.run(4.0)
        readers = readers_at(world, "a", "b", durable="d")
        publishers = publishers_at(world, "a")
        for patterns in ((PATTERN,), (), (PATTERN,)):
            publish(world, publishers, 5)
            read(world, *readers, seconds=world.random.choice([0.0, 1.0]))
            restart(transport, "a", *patterns)
        publish(world, publishers, 5)
        settle(world, publishers, readers, 20.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_client_from_another_node_misses_and_repeats_no_event(seed: int) -> None:
    """The other node delivers events of the first one before that itself does."""
    with NetworkWorld(seed) as world:
        transport = OrderingTransport(world)
        add_nodes(transport, "a", "b")
        (reader,) = readers_at(world, "b", durable="d")
        publishers = publishers_at(world, "a", "b")
        publish(world, publishers, 3)
        transport.ends["a"].is_deaf = True
        publish(world, publishers, 3)
        read(world, reader, seconds=0.5)
        assert reader.subscription is not None
        position = reader.subscription.position
        world.kill_client(reader.client)
        second = Reader(
            world,
            world.client("at-b", "a", incarnation=2),
            durable="d",
            start=since(position),
        )
        publish(world, publishers, 3)
        world.run_until(lambda: second.is_flowing)
        read(world, second, seconds=20.0)
        found = [name_of(event) for event in [*reader.events, *second.events]]
        assert len(found) == len(set(found)) == 36 and second.gaps == []


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


@pytest.mark.parametrize("seed", seeds(4, 20))
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
