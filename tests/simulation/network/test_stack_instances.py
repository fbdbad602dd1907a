"""Instances of the default transport beside it, in one network of clusters."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from broker.config.stacks import DEFAULT_STACK, StackInstance
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read
from tests.seeds import seeds
from tests.simulation.network.other_transport import OtherTransport
from tests.simulation.network.test_flows import (
    FAST,
    PATTERN,
    SLOW,
    flows_of,
    processed,
    publish_both,
    settle,
)

SEEDS = seeds(1, 10)
RADAR = StackInstance("radar", use=DEFAULT_STACK)
BOATS = StackInstance("boats", use=DEFAULT_STACK)
#: Within `PATTERN`, and has the stream `SLOW`.
WITHIN = "asdi.zny.*"


def set_stacks(world: NetworkWorld, name: str, stacks: Mapping[str, StackInstance]) -> None:
    """Start a node, or restart it."""
    if name in world.running:
        world.kill(name)
    if name not in world.names:
        world.add(name, "one", start=False, join=world.names[:1])
    world.set_stacks(name, stacks)
    world.start(name)


def start(
    world: NetworkWorld, *stacks: Mapping[str, StackInstance], durable: str = "d"
) -> tuple[Publisher, Reader]:
    """Start the nodes `a`, `b`, ...; the first publishes, the last subscribes."""
    names = "abc"[: len(stacks)]
    for name, each in zip(names, stacks, strict=True):
        set_stacks(world, name, each)
    world.run(4.0)
    reader = Reader(world, world.client("reader", names[-1]), durable=durable)
    world.run_until(lambda: reader.is_flowing)
    return Publisher(world.client("publisher", "a")), reader


def counts_of(world: NetworkWorld, name: str) -> dict[str, tuple[int, int | None]]:
    transports = world[name].transports
    assert transports is not None
    found = transports.snapshot()
    assert not any(each["error"] for each in found)
    return {each["name"]: (each["published"], each.get("received")) for each in found}


def asked(world: NetworkWorld, name: str) -> int:
    traffic = world.network_of(name).traffic
    assert traffic is not None
    return traffic.receiver.counts.asked


@pytest.mark.parametrize("seed", SEEDS)
def test_two_instances_carry_their_streams_in_frames_of_one_network(seed: int) -> None:
    with NetworkWorld(seed) as world:
        stacks = {PATTERN: RADAR, "boats": BOATS}
        publisher, reader = start(world, stacks, stacks, durable="")
        for _ in range(10):
            publisher.publish("boats")
        publish_both(world, publisher)
        settle(world, publisher, reader)
        assert counts_of(world, "a") == {"mspaces": (10, None), "radar": (10, 0), "boats": (10, 0)}
        assert counts_of(world, "b") == {"mspaces": (0, None), "radar": (0, 10), "boats": (0, 10)}
        assert asked(world, "b") == 0
        origin, radar = flows_of(world, "a")
        marks = processed(reader)
        found = [marks.get(flow) for flow in (origin, radar, f"{origin}/boats")]
        assert found == [world["a"].event_log.own_end] * 3


@pytest.mark.parametrize("seed", SEEDS)
def test_another_cluster_gets_the_frames_of_an_instance(seed: int) -> None:
    with NetworkWorld(seed) as world:
        publisher, _ = start(world, {PATTERN: RADAR})
        for name, joined in (("b", {"gateways": ["a"]}), ("c", {"join": ["b"]})):
            world.add(name, "two", start=False, **joined)  # type: ignore[arg-type]
            world.set_stacks(name, {PATTERN: RADAR})
            world.start(name)
        world.run(5.0)
        reader = Reader(world, world.client("far", "c"))
        world.run_until(lambda: reader.is_flowing)
        publish_both(world, publisher)
        settle(world, publisher, reader, seconds=1.0)
        assert counts_of(world, "c")["radar"] == (0, 10)
        assert asked(world, "c") == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_the_default_stack_takes_streams_from_a_wider_pattern(seed: int) -> None:
    with NetworkWorld(seed) as world:
        OtherTransport(world, 0.05)
        stacks = {PATTERN: StackInstance("other"), WITHIN: StackInstance(DEFAULT_STACK)}
        publisher, reader = start(world, stacks, stacks, durable="")
        for _ in range(10):
            publisher.publish("asdi.zbw")
        publish_both(world, publisher)
        settle(world, publisher, reader)
        assert counts_of(world, "a") == {"mspaces": (20, None), "other": (10, 0)}
        assert counts_of(world, "b") == {"mspaces": (0, None), "other": (0, 10)}
        assert asked(world, "b") == 0
        origin, other = flows_of(world, "a")
        marks = processed(reader)
        found = [marks.get(flow) for flow in (origin, other, f"{origin}/{WITHIN}")]
        assert found == [world["a"].event_log.own_end] * 3


@pytest.mark.parametrize("seed", SEEDS)
def test_nodes_that_disagree_about_an_instance_say_so_and_lose_nothing(seed: int) -> None:
    with NetworkWorld(seed) as world:
        OtherTransport(world, 0.05)
        other = {PATTERN: StackInstance("other")}
        publisher, reader = start(world, {PATTERN: RADAR}, other, {})
        publishers = [publisher, Publisher(world.client("other", "b"))]
        publishers.append(Publisher(world.client("default", "c")))
        readers = [reader, *(Reader(world, world.client(f"at-{name}", name)) for name in "ab")]
        world.run_until(lambda: all(each.is_flowing for each in readers))
        for each in publishers:
            publish_both(world, each)
        for each in publishers:
            settle(world, each, *readers, seconds=5.0)
        state = world.network_of("b").state
        assert state is not None
        assert state.stacks.disagreements(state.map.members()) == [
            f'streams."{PATTERN}": {node} has the stack {stack}, this node other 1'
            for node, stack in (("a", "mspaces 1"), ("c", "of the next wider pattern"))
        ]
        # Frames serve the nodes without the instance, too.
        assert {event.place.origin for event in reader.events} >= {*flows_of(world, "a")}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_of_an_earlier_version_gets_no_events_of_an_instance(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with NetworkWorld(seed) as world:
        publisher, reader = start(world, {PATTERN: RADAR}, {PATTERN: RADAR})
        with monkeypatch.context() as patch:
            patch.setattr("broker.cluster.network_factory.PROTOCOL_VERSIONS", (1, 2))
            world.add("c", "one", join=["a", "b"])
        world.run(4.0)
        old = Reader(world, world.client("old", "c"))
        world.run_until(lambda: old.is_flowing)
        publish_both(world, publisher)
        settle(world, publisher, reader, seconds=1.0)
        read(world, old, seconds=1.0)
        assert [event.header.stream for event in old.events] == [FAST] * 10
        assert [event.header.stream for event in reader.events].count(SLOW) == 10
        assert world.are_linked("a", "c")


@pytest.mark.parametrize("seed", seeds(1, 20))
def test_changes_to_an_instance_and_back_lose_no_event_under_faults(seed: int) -> None:
    with NetworkWorld(seed) as world:
        OtherTransport(world, 0.3, lambda _: world.random.random() < 0.3)
        choices: list[Mapping[str, StackInstance]] = [
            {},
            {PATTERN: RADAR},
            {PATTERN: BOATS, "other": RADAR},
            {PATTERN: StackInstance("other")},
            {PATTERN: StackInstance("other"), WITHIN: StackInstance(DEFAULT_STACK)},
        ]
        publisher, reader = start(world, {}, {}, {})
        readers = [
            reader,
            *(Reader(world, world.client(f"at-{name}", name), durable="d") for name in "ab"),
        ]
        world.run_until(lambda: all(each.is_flowing for each in readers))
        for turn in range(12):
            name, other = world.random.sample("abc", 2)
            if turn % 3 == 2:
                world.cut(name, other)
            else:
                set_stacks(world, "a" if turn % 2 else name, world.random.choice(choices))
            publish_both(world, publisher, 3)
            read(world, *readers, seconds=world.random.uniform(0.1, 2.0))
        settle(world, publisher, *readers, seconds=60.0)
