"""Flows of one origin that different transports carry (`broker.event.flow`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from broker.client.received import ALL, since
from broker.event.place import Mark, Position
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, name_of, read, read_logs
from tests.seeds import seeds
from tests.simulation.network.other_transport import OtherTransport

SEEDS = seeds(1, 6)
FAST, SLOW = "other", "asdi.zny.tz"
PATTERN = "asdi.>"
#: Seconds; longer than `start_position.MAX_CLOCK_SKEW`.
LONG = 700.0


def add_node(
    transport: OtherTransport, name: str, *patterns: str, join: Sequence[str] = ()
) -> None:
    transport.world.add(name, "one", start=False, join=join)
    transport.set_patterns(name, *patterns)
    transport.world.start(name)


def add_nodes(transport: OtherTransport, *names: str) -> None:
    for index, name in enumerate(names):
        add_node(transport, name, PATTERN, join=names[:index])
    transport.world.run(4.0)


def restart(transport: OtherTransport, name: str, *patterns: str) -> None:
    transport.world.kill(name)
    transport.set_patterns(name, *patterns)
    transport.world.start(name)


def publish_both(world: NetworkWorld, publisher: Publisher, count: int = 10) -> None:
    for _ in range(count):
        publisher.publish(FAST)
        publisher.publish(SLOW)
        world.run(0.1)


def settle(
    world: NetworkWorld, publisher: Publisher, *readers: Reader, seconds: float = 15.0
) -> None:
    """Check that each event came once, and in the publisher's order within each flow."""
    world.run_until(lambda: not publisher.client.unacknowledged)
    read(world, *readers, seconds=seconds)
    logs = read_logs(world)
    for reader in readers:
        assert reader.error is None and reader.wrong_liveness == []
        found = [name_of(event) for event in reader.events]
        assert len(found) == len(set(found)), f"twice (seed {world.seed})"
        missing = reader.expected(logs).keys() - set(found)
        assert not missing, f"{sorted(missing)} are missing (seed {world.seed})"
        assert reader.gaps == []
        newest: dict[str, int] = {}
        for event in reader.events:
            number = event.header.event_id.sequence_number
            assert newest.get(event.place.origin, 0) < number
            newest[event.place.origin] = number


def flows_of(world: NetworkWorld, name: str) -> tuple[str, str]:
    origin = world[name].event_log.origin
    return origin, f"{origin}/{PATTERN}"


def processed(reader: Reader) -> dict[str, Mark]:
    assert reader.subscription is not None
    return dict(reader.subscription.position.marks)


@pytest.mark.parametrize("delay", [0.0, 0.3, 3.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_slow_flow_neither_delays_nor_loses_events(seed: int, delay: float) -> None:
    with NetworkWorld(seed) as world:
        transport = OtherTransport(world, delay)
        add_nodes(transport, "a", "b")
        reader = Reader(world, world.client("reader", "b"))
        own = Reader(world, world.client("own", "a"))
        world.run_until(lambda: reader.is_flowing and own.is_flowing)
        publisher = Publisher(world.client("publisher", "a"))
        publish_both(world, publisher)
        settle(world, publisher, reader, own)
        assert {event.place.origin for event in reader.events} == {*flows_of(world, "a")}
        end = world["a"].event_log.own_end
        for each in (reader, own):
            assert [processed(each).get(flow) for flow in flows_of(world, "a")] == [end, end]
        counts = world.network_of("b").traffic
        assert counts is not None and (delay or not counts.receiver.counts.asked)


@pytest.mark.parametrize("lost", ["all", "last", "some"])
@pytest.mark.parametrize("seed", SEEDS)
def test_events_that_the_other_transport_loses_come_in_pages(seed: int, lost: str) -> None:
    losses: dict[str, Callable[[int], bool]] = {
        "all": lambda _: True,
        "last": lambda number: number > 5,
        "some": lambda number: number % 3 == 0,
    }
    with NetworkWorld(seed) as world:
        transport = OtherTransport(world, 0.05, losses[lost])
        add_nodes(transport, "a", "b")
        reader = Reader(world, world.client("reader", "b"))
        world.run_until(lambda: reader.is_flowing)
        publisher = Publisher(world.client("publisher", "a"))
        publish_both(world, publisher)
        settle(world, publisher, reader)
        assert processed(reader)[flows_of(world, "a")[1]] == world["a"].event_log.own_end


@pytest.mark.parametrize("seed", SEEDS)
def test_a_durable_subscription_roams_with_a_mark_for_each_flow(seed: int) -> None:
    with NetworkWorld(seed) as world:
        transport = OtherTransport(world, 30.0, lambda number: number % 2 == 0)
        add_nodes(transport, "a", "b", "c")
        reader = Reader(world, world.client("reader", "b"), durable="d")
        world.run_until(lambda: reader.is_flowing)
        publisher = Publisher(world.client("publisher", "a"))
        publish_both(world, publisher)
        world.run_until(lambda: not publisher.client.unacknowledged)
        read(world, reader, seconds=0.3)
        world.cut("a", "b", refuse=True)
        world.cut("b", "c", refuse=True)
        publish_both(world, publisher)
        read(world, reader, seconds=0.3)
        world.kill_client(reader.client)
        world.heal("b", "c")
        world.run(1.0)
        publish_both(world, publisher)
        second = Reader(
            world, world.client("reader", "c", incarnation=2), durable="d", start=reader._start
        )
        second.starts_after = reader.starts_after
        world.run_until(lambda: second.is_flowing)
        publish_both(world, publisher)
        read(world, second, seconds=40.0)
        events = {name_of(event) for event in [*reader.events, *second.events]}
        missing = reader.expected(read_logs(world)).keys() - events
        assert not missing, f"{sorted(missing)} are missing (seed {seed})"
        assert second.gaps == []


@pytest.mark.parametrize("node", ["a", "b"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_restarted_node_continues_each_flow_at_its_mark(seed: int, node: str) -> None:
    with NetworkWorld(seed) as world:
        transport = OtherTransport(world, 1.5, lambda number: number % 4 == 0)
        add_nodes(transport, "a", "b")
        reader = Reader(world, world.client("reader", "b"), durable="d")
        world.run_until(lambda: reader.is_flowing)
        publisher = Publisher(world.client("publisher", "a"))
        publish_both(world, publisher)
        restart(transport, node, PATTERN)
        publish_both(world, publisher)
        settle(world, publisher, reader, seconds=30.0)


@pytest.mark.parametrize("is_away", [False, True])
@pytest.mark.parametrize("change", ["added", "removed"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_stream_changes_its_stack_at_a_restart(seed: int, change: str, is_away: bool) -> None:
    """The subscriber is behind then; its node may be down too."""
    before, after = ((), (PATTERN,)) if change == "added" else ((PATTERN,), ())
    with NetworkWorld(seed) as world:
        transport = OtherTransport(world, 2.0, lambda number: number % 3 == 0)
        add_node(transport, "a", *before)
        add_node(transport, "b", *before, join=["a"])
        world.run(4.0)
        reader = Reader(world, world.client("reader", "b"), durable="d")
        world.run_until(lambda: reader.is_flowing)
        publisher = Publisher(world.client("publisher", "a"))
        publish_both(world, publisher)
        if is_away:
            world.kill("b")
            publish_both(world, publisher)
        restart(transport, "a", *after)
        publish_both(world, publisher)
        if is_away:
            transport.set_patterns("b", *after)
            world.start("b")
        else:
            restart(transport, "b", *after)
        publish_both(world, publisher)
        settle(world, publisher, reader, seconds=40.0)
        log = world["a"].event_log
        (interval,) = log.flows.intervals_of(flows_of(world, "a")[1])
        assert (interval[1] is None) is (change == "added")
        assert world["b"].event_log.flows.intervals_of(flows_of(world, "a")[1]) == (interval,)


@pytest.mark.parametrize("change", ["added", "removed"])
@pytest.mark.parametrize("seed", SEEDS)
def test_an_absent_client_of_the_origin_node_misses_nothing(seed: int, change: str) -> None:
    before, after = ((), (PATTERN,)) if change == "added" else ((PATTERN,), ())
    with NetworkWorld(seed) as world:
        transport = OtherTransport(world)
        add_node(transport, "a", *before)
        reader = Reader(world, world.client("reader", "a"), durable="d")
        world.run_until(lambda: reader.is_flowing)
        publisher = Publisher(world.client("publisher", "a"))
        publish_both(world, publisher)
        read(world, reader, seconds=1.0)
        world.kill_client(reader.client)
        publish_both(world, publisher)
        restart(transport, "a", *after)
        publish_both(world, publisher)
        second = Reader(world, world.client("reader", "a", incarnation=2), durable="d")
        world.run_until(lambda: second.is_flowing)
        second.starts_after = reader.starts_after
        publish_both(world, publisher)
        read(world, second, seconds=10.0)
        got = [name_of(event) for event in [*reader.events, *second.events]]
        assert len(set(got)) == 80
        assert len(second.events) <= 61 and second.gaps == []


def old_nodes(world: NetworkWorld, transport: OtherTransport) -> tuple[Publisher, Reader]:
    """Start `a` and `b` long ago: they are older than any difference of clocks."""
    add_node(transport, "a")
    add_node(transport, "b", join=["a"])
    world.run(4.0)
    reader = Reader(world, world.client("reader", "b"), durable="d")
    world.run_until(lambda: reader.is_flowing)
    publisher = Publisher(world.client("publisher", "a"))
    publish_both(world, publisher)
    read(world, reader, seconds=1.0)
    world.run(LONG)
    return publisher, reader


@pytest.mark.parametrize("seed", SEEDS)
def test_a_flow_that_began_while_a_node_was_away_is_read_from_its_begin(seed: int) -> None:
    with NetworkWorld(seed) as world:
        transport = OtherTransport(world, 0.05)
        publisher, reader = old_nodes(world, transport)
        world.kill("b")
        restart(transport, "a", PATTERN)
        publish_both(world, publisher)
        world.run(LONG)
        world.start("b")
        settle(world, publisher, reader, seconds=20.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_client_with_an_older_position_misses_no_flow_at_a_new_node(seed: int) -> None:
    with NetworkWorld(seed) as world:
        transport = OtherTransport(world, 0.05)
        publisher, reader = old_nodes(world, transport)
        world.kill_client(reader.client)
        world.kill("b")
        restart(transport, "a", PATTERN)
        publish_both(world, publisher)
        world.run(LONG)
        add_node(transport, "c", PATTERN, join=["a"])
        position = Position({world["a"].event_log.origin: publisher.marks[0]})
        second = Reader(
            world,
            world.client("reader", "c", incarnation=2),
            durable="d",
            start=since(position),
        )
        world.run_until(lambda: second.is_flowing)
        publish_both(world, publisher)
        read(world, second, seconds=20.0)
        assert sorted(name_of(event)[2] for event in second.events) == list(range(2, 61))
        assert second.gaps == []


@pytest.mark.parametrize("seed", SEEDS)
def test_the_first_cut_of_a_new_node_names_all_flows(seed: int) -> None:
    with NetworkWorld(seed) as world:
        transport = OtherTransport(world)
        add_node(transport, "a", PATTERN)
        world.run(4.0)
        add_node(transport, "b", join=["a"])
        world.run_until(lambda: world.are_linked("a", "b"))
        reader = Reader(world, world.client("reader", "b"))
        world.run_until(lambda: reader.is_flowing)
        assert set(flows_of(world, "a")) <= reader.starts_after.keys()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_new_subscription_gets_no_earlier_events_of_any_flow(seed: int) -> None:
    with NetworkWorld(seed) as world:
        transport = OtherTransport(world, 1.0)
        publisher, reader = old_nodes(world, transport)
        restart(transport, "a", PATTERN)
        publish_both(world, publisher)
        world.run(LONG)
        add_node(transport, "c", join=["a"])
        world.run(3.0)
        late = Reader(world, world.client("late", "c"))
        world.run_until(lambda: late.is_flowing)
        publish_both(world, publisher)
        settle(world, publisher, late, reader)
        assert len(late.events) == 20 and set(flows_of(world, "a")) <= late.starts_after.keys()


@pytest.mark.parametrize("seed", SEEDS)
def test_another_cluster_gets_the_events_that_the_other_transport_loses(seed: int) -> None:
    with NetworkWorld(seed) as world:
        transport = OtherTransport(world, 0.05, lambda number: number % 2 == 0)
        add_node(transport, "a", PATTERN)
        for name, joined in (("b", {"gateways": ["a"]}), ("c", {"join": ["b"]})):
            world.add(name, "two", start=False, **joined)  # type: ignore[arg-type]
            transport.set_patterns(name, PATTERN)
            world.start(name)
        world.run(5.0)
        reader = Reader(world, world.client("reader", "c"))
        world.run_until(lambda: reader.is_flowing)
        publisher = Publisher(world.client("publisher", "a"))
        publish_both(world, publisher)
        settle(world, publisher, reader)
        assert processed(reader)[flows_of(world, "a")[1]] == world["a"].event_log.own_end


@pytest.mark.parametrize("seed", seeds(1, 20))
def test_random_faults_lose_no_event_of_any_flow(seed: int) -> None:
    with NetworkWorld(seed) as world:
        names = ("a", "b", "c")
        transport = OtherTransport(world, 0.5, lambda _: world.random.random() < 0.3)
        add_nodes(transport, *names)
        readers = [Reader(world, world.client(f"at-{name}", name), durable="d") for name in names]
        world.run_until(lambda: all(reader.is_flowing for reader in readers))
        publisher = Publisher(world.client("publisher", "a"))
        patterns: dict[str, tuple[str, ...]] = dict.fromkeys(names, (PATTERN,))
        for _ in range(12):
            transport.delay = world.random.choice([0.0, 0.2, 3.0])
            name, other = world.random.sample(names, 2)
            match world.random.choice(["none", "restart", "cut", "change"]):
                case "restart":
                    restart(transport, name, *patterns[name])
                case "cut":
                    world.cut(name, other)
                case "change":
                    patterns[name] = () if patterns[name] else (PATTERN,)
                    restart(transport, name, *patterns[name])
            publish_both(world, publisher, 3)
            read(world, *readers, seconds=world.random.uniform(0.1, 2.0))
        settle(world, publisher, *readers, seconds=60.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_without_the_pattern_gets_all_events(seed: int) -> None:
    with NetworkWorld(seed) as world:
        transport = OtherTransport(world, 0.05)
        add_node(transport, "a", PATTERN)
        add_node(transport, "b", join=["a"])
        world.run(4.0)
        reader = Reader(world, world.client("reader", "b"), start=ALL)
        world.run_until(lambda: reader.is_flowing)
        publisher = Publisher(world.client("publisher", "a"))
        publish_both(world, publisher)
        settle(world, publisher, reader)
        assert transport.ends.keys() == {"a"}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_of_an_earlier_version_gets_the_default_flow(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with NetworkWorld(seed) as world:
        transport = OtherTransport(world)
        add_node(transport, "a", PATTERN)
        with monkeypatch.context() as patch:
            patch.setattr("broker.cluster.network_factory.PROTOCOL_VERSIONS", (1, 2))
            add_node(transport, "b", join=["a"])
        add_node(transport, "c", join=["a", "b"])
        world.run(4.0)
        old = Reader(world, world.client("old", "b"))
        new = Reader(world, world.client("new", "c"))
        world.run_until(lambda: old.is_flowing and new.is_flowing)
        publisher = Publisher(world.client("publisher", "a"))
        publish_both(world, publisher)
        settle(world, publisher, new)
        read(world, old, seconds=1.0)
        assert [event.header.stream for event in old.events] == [FAST] * 10
        assert world.are_linked("a", "b")
