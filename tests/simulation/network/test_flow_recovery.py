"""Recovery of each flow of an origin, from replicas, the archive and other logs."""

from __future__ import annotations

from typing import Any

import pytest

from broker.client.received import ALL
from broker.config import Settings, StreamSettings
from broker.event.envelope import Liveness
from broker.event.place import Position
from broker.event.stream import StreamPattern
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, name_of, read
from tests.seeds import seeds
from tests.simulation.network.other_transport import OtherTransport
from tests.simulation.network.test_archive_catch_up import SILENCE
from tests.simulation.network.test_damaged_logs import damage
from tests.simulation.network.test_flows import (
    FAST,
    PATTERN,
    SLOW,
    flows_of,
)

SEEDS = seeds(1, 5)
GUARDED = Settings(streams=(StreamSettings(StreamPattern.parse(">"), acknowledge="neighbour"),))


def add_node(transport: OtherTransport, name: str, cluster: str = "c", **settings: Any) -> None:
    transport.world.add(name, cluster, start=False, **settings)
    transport.set_patterns(name, PATTERN)
    transport.world.start(name)


def publish(world: NetworkWorld, publisher: Publisher, count: int) -> None:
    for _ in range(count):
        publisher.publish(FAST)
        publisher.publish(SLOW)
    world.run_until(lambda: not publisher.client.unacknowledged)


def numbers(reader: Reader) -> list[int]:
    return [number for _, _, number in map(name_of, reader.events)]


def check_labels(world: NetworkWorld, reader: Reader, node: str = "a") -> None:
    origin, flow = flows_of(world, node)
    wanted = {FAST: origin, SLOW: flow}
    for event in reader.events:
        assert event.place.origin == wanted[event.header.stream]


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_each_flow_of_a_lost_disk_comes_from_its_replica(seed: int, far: bool) -> None:
    with NetworkWorld(seed) as world:
        transport = OtherTransport(world, 0.02, lambda number: number > 6)
        add_node(transport, "a", settings=GUARDED)
        add_node(transport, "keeper", join=["a"])
        if far:
            add_node(transport, "zone", "far", gateways=["keeper"])
        else:
            add_node(transport, "zone", join=["keeper"])
        world.run(4.0)
        origin, flow = flows_of(world, "a")
        reader = Reader(world, world.client("reader", "zone"))
        publisher = Publisher(world.client("publisher", "a"))
        world.run_until(lambda: reader.is_flowing)
        link = world.network_of("keeper").neighbours.get("a")
        publish(world, publisher, 5)
        read(world, reader, seconds=2.0)
        world.cut("keeper", "zone", refuse=True)
        world.cut("a", "zone", refuse=True)
        publish(world, publisher, 20)
        # A commit of its own.
        publisher.publish(SLOW)
        world.run_until(lambda: not publisher.client.unacknowledged)
        assert link is not None and world.network_of("keeper").neighbours.get("a") is link
        world.kill("a")
        world.lose_disk("a")
        world.heal("keeper", "zone")
        world.run(30.0)
        read(world, reader)
        assert sorted(numbers(reader)) == list(range(1, 52)), f"seed {seed}"
        assert reader.gaps == [] and {e.place.origin for e in reader.events} == {origin, flow}


@pytest.mark.parametrize("seed", SEEDS)
def test_each_flow_of_a_dead_origin_comes_from_the_archive(seed: int) -> None:
    with NetworkWorld(seed, archived=True) as world:
        transport = OtherTransport(world, 0.02, lambda number: number == 4)
        add_node(transport, "a")
        add_node(transport, "b", join=["a"])
        world.run(4.0)
        publisher = Publisher(world.client("publisher", "a"))
        reader = Reader(world, world.client("reader", "b"))
        world.run_until(lambda: reader.is_flowing)
        publish(world, publisher, 5)
        read(world, reader, seconds=3.0)
        world.cut("a", "b", refuse=True)
        publish(world, publisher, 30)
        world.run(5.0)
        before = len(reader.events)
        world.kill("a")
        read(world, reader, seconds=SILENCE)
        assert before < 70 and sorted(numbers(reader)) == list(range(1, 71))
        assert reader.gaps == []
        world.start("a")
        world.heal("a", "b")
        world.run_until(lambda: world.are_linked("a", "b"))
        publish(world, publisher, 5)
        read(world, reader, seconds=30.0)
        assert sorted(numbers(reader)) == list(range(1, 81)) and reader.gaps == []
        check_labels(world, reader)


@pytest.mark.parametrize("node", ["a", "b"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_replay_has_the_flow_of_each_event(seed: int, node: str) -> None:
    """The stream changed its stack before."""
    with NetworkWorld(seed, archived=True) as world:
        world.add("a", "c")
        world.add("b", "c", join=["a"])
        world.run(4.0)
        publisher = Publisher(world.client("publisher", "a"))
        world.run(1.0)
        publish(world, publisher, 5)
        world.kill("a")
        OtherTransport(world, 0.02).set_patterns("a", PATTERN)
        world.start("a")
        publish(world, publisher, 5)
        world.run(10.0)
        reader = Reader(world, world.client("reader", node), start=ALL)
        world.run_until(lambda: reader.is_flowing)
        publish(world, publisher, 5)
        read(world, reader, seconds=10.0)
        assert sorted(numbers(reader)) == list(range(1, 31)) and reader.gaps == []
        origin, flow = flows_of(world, "a")
        since = world["a"].event_log.flows.since(flow)
        for event in reader.events:
            is_default = event.header.stream == FAST or event.place.mark <= since
            assert event.place.origin == (origin if is_default else flow)


@pytest.mark.parametrize("where", [0.3, 0.7])
@pytest.mark.parametrize("source", ["replica", "subscriber"])
def test_own_events_of_all_flows_are_repaired(source: str, where: float) -> None:
    settings = GUARDED if source == "replica" else Settings()
    with NetworkWorld(3) as world:
        transport = OtherTransport(world, 0.02)
        add_node(transport, "a", "one", settings=settings)
        add_node(transport, "b", "one", join=["a"])
        world.run(5.0)
        readers = [Reader(world, world.client("reader", "b"))] if source == "subscriber" else []
        world.run_until(lambda: all(reader.is_flowing for reader in readers))
        publisher = Publisher(world.client("publisher", "a"))
        world.run(1.0)
        for _ in range(10):
            publish(world, publisher, 1)
        read(world, *readers, seconds=3.0)
        damage(world, "a", where)
        reader = Reader(world, world.client("late", "a"), start=ALL)
        world.run_until(lambda: reader.is_flowing)
        read(world, reader, seconds=60.0)
        assert sorted(numbers(reader)) == list(range(1, 21))
        assert reader.gaps == []
        repairs = world["a"].event_log.repairs
        assert repairs.counts["repaired"] == repairs.counts["found"] > 0
        check_labels(world, reader)


@pytest.mark.parametrize("node", ["a", "b"])
def test_a_recovery_up_to_a_place_of_the_log_has_all_flows(node: str) -> None:
    with NetworkWorld(4) as world:
        transport = OtherTransport(world, 0.02)
        add_node(transport, "a")
        add_node(transport, "b", join=["a"])
        world.run(4.0)
        publisher = Publisher(world.client("publisher", "a"))
        world.run(1.0)
        publish(world, publisher, 10)
        world.run(2.0)
        end = Position({flows_of(world, "a")[0]: publisher.marks[11]})
        found: list[int] = []
        subscribed = world.client("late", node).subscribe(
            "true()", ">", start=ALL, until=end, on_gap=lambda gap: found.append(0)
        )
        subscription = world.wait(subscribed)
        world.run(10.0)
        while events := subscription.take_ready():
            found += [name_of(event)[2] for event in events]
        assert sorted(found) == list(range(1, 13))


@pytest.mark.parametrize("seed", SEEDS)
def test_events_of_other_flows_are_no_gap_in_the_log_of_a_lost_disk(seed: int) -> None:
    """Another node logged all events, under their flows."""
    with NetworkWorld(seed) as world:
        transport = OtherTransport(world, 0.02)
        add_node(transport, "a")
        add_node(transport, "b", join=["a"])
        add_node(transport, "c", join=["a", "b"])
        world.run(4.0)
        readers = [Reader(world, world.client(f"at-{name}", name)) for name in ("b", "c")]
        world.run_until(lambda: all(reader.is_flowing for reader in readers))
        publisher = Publisher(world.client("publisher", "a"))
        publish(world, publisher, 5)
        read(world, *readers, seconds=2.0)
        transport.loses = lambda _: True
        world.cut("a", "b", refuse=True)
        world.cut("b", "c", refuse=True)
        publish(world, publisher, 10)
        read(world, *readers, seconds=3.0)
        assert [len(reader.events) for reader in readers] == [10, 30]
        world.kill("a")
        world.lose_disk("a")
        world.start("a")
        world.heal("b", "c")
        world.heal("a", "b")
        read(world, *readers, seconds=SILENCE + 60.0)
        for reader in readers:
            assert sorted(numbers(reader)) == list(range(1, 31)) and reader.gaps == []


@pytest.mark.parametrize("node", ["b", "c"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_replay_merges_flows_that_only_other_nodes_have_logged(seed: int, node: str) -> None:
    with NetworkWorld(seed, archived=True) as world:
        transport = OtherTransport(world, 0.02)
        add_node(transport, "a")
        add_node(transport, "b", join=["a"])
        add_node(transport, "c", join=["a", "b"])
        world.run(4.0)
        reader = Reader(world, world.client("at-c", "c"))
        world.run_until(lambda: reader.is_flowing)
        publisher = Publisher(world.client("publisher", "a"))
        publish(world, publisher, 5)
        read(world, reader, seconds=10.0)
        origin, flow = flows_of(world, "a")
        publish(world, publisher, 5)
        read(world, reader, seconds=0.3)
        assert len(reader.events) == 20
        world.kill("a")
        world.lose_disk("a")
        world.start("a")
        world.run_until(lambda: world.are_linked("a", "b") and world.are_linked("a", "c"))
        late = Reader(world, world.client("late", node), start=ALL)
        world.run_until(lambda: late.is_flowing)
        read(world, late, seconds=SILENCE)
        assert sorted(numbers(late)) == list(range(1, 21))
        assert late.gaps == [] and {event.place.origin for event in late.events} == {origin, flow}


@pytest.mark.parametrize("seed", SEEDS)
def test_events_of_a_node_without_a_cluster_are_not_skipped_later(seed: int) -> None:
    with NetworkWorld(seed) as world:
        transport = OtherTransport(world, 0.05)
        add_node(transport, "b")
        world.add("a", start=False, join=["b"])
        transport.set_patterns("a", PATTERN)
        world.start("a")
        world.run_until(lambda: world.are_linked("a", "b"))
        world.run(2.0)
        reader = Reader(world, world.client("reader", "b"))
        world.run_until(lambda: reader.is_flowing)
        publisher = Publisher(world.client("publisher", "a"))
        publish(world, publisher, 10)
        world.kill("a")
        world.cut("a", "b", refuse=True)
        world.start("a")
        world.run(1.0)
        assert world.network_of("a").state is None
        publish(world, publisher, 10)
        world.heal("a", "b")
        world.run_until(lambda: world.are_linked("a", "b"))
        publish(world, publisher, 10)
        read(world, reader, seconds=20.0)
        assert sorted(numbers(reader)) == list(range(1, 61)) and reader.gaps == []


@pytest.mark.parametrize("seed", SEEDS)
def test_events_up_to_an_earlier_cut_are_recovery_events(seed: int) -> None:
    """The last session begins at a restarted node without a link, with a cut that lies behind."""
    with NetworkWorld(seed) as world:
        transport = OtherTransport(world, 0.02)
        add_node(transport, "a")
        add_node(transport, "b", join=["a"])
        world.run(4.0)
        reader = Reader(world, world.client("reader", "b", longest_wait=0.1))
        publisher = Publisher(world.client("publisher", "a"))
        world.run_until(lambda: reader.is_flowing)
        flow, subscription = flows_of(world, "a")[1], reader.subscription
        assert subscription is not None
        transport.loses = lambda _: True
        cuts = []
        for linked in (True, False):
            world.kill("b")
            if linked:
                publish(world, publisher, 5)
            else:
                world.cut("a", "b", refuse=True)
            subscription.cut = Position()
            world.start("b")
            world.run_until(lambda: subscription.cut != Position())
            cuts.append(subscription.cut.marks[flow])
        assert cuts[1] < cuts[0]
        world.heal("a", "b")
        world.run_until(lambda: world.are_linked("a", "b"))
        publish(world, publisher, 5)
        read(world, reader, seconds=10.0)
        assert sorted(numbers(reader)) == list(range(1, 21)) and reader.gaps == []
        liveness = [e.liveness is Liveness.RECOVERY for e in reader.events]
        assert liveness == [number <= 10 for number in numbers(reader)]
        assert reader.wrong_liveness == []
