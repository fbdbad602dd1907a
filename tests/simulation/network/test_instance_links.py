"""Instances of the default transport with links of their own, beside those of the network."""

from __future__ import annotations

from typing import Any, cast

import attrs
import pytest

from broker.cluster.instance_links import InstanceLinks
from broker.cluster.neighbours import Neighbours
from broker.config.stacks import DEFAULT_STACK, StackInstance
from broker.errors import Closed
from broker.event.envelope import SecurityLevel
from broker.testing.memory_channel import MemoryChannel
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read
from plugins.mspaces.settings import MspacesSettings
from tests.seeds import seeds
from tests.simulation.network.test_flows import FAST, PATTERN, SLOW, publish_both, settle
from tests.simulation.network.test_stack_instances import BOATS, asked, set_stacks, start

SEEDS = seeds(1, 10)
WINDOW = 1 << 16
SHARED = StackInstance("radar", use=DEFAULT_STACK)
RADAR = attrs.evolve(SHARED, links=DEFAULT_STACK, link_options=MspacesSettings(window_bytes=WINDOW))
STACKS = {PATTERN: RADAR}


def links_of(world: NetworkWorld, name: str) -> InstanceLinks:
    return world.network_of(name).driver.instance_links[PATTERN]


def peers_of(world: NetworkWorld, name: str) -> dict[str, dict[str, Any]]:
    """Return the links that are connected, by node."""
    peers = links_of(world, name).snapshot()["peers"]
    return {each["node"]: each for each in peers if each["linked"]}


def channel_of(world: NetworkWorld, name: str, far: str) -> MemoryChannel | None:
    neighbour = links_of(world, name)._links.get(far)
    return None if neighbour is None else cast(MemoryChannel, neighbour._channel)


def cut(world: NetworkWorld, name: str, far: str) -> None:
    """Break the connection of the link of the instance alone, if there is one."""
    channel = channel_of(world, name, far)
    if channel is not None:
        channel.break_connection()


def reconnections(world: NetworkWorld) -> dict[tuple[str, str], int]:
    """Return those of the links of the network that are up."""
    return {
        (name, each.name): each.reconnections
        for name in world.running
        for each in world.network_of(name).neighbours
        if each.up
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_frames_of_an_instance_have_connections_of_their_own(seed: int) -> None:
    with NetworkWorld(seed) as world:
        stacks = {**STACKS, "boats": BOATS}
        publisher, reader = start(world, stacks, stacks, stacks)
        assert {name: set(peers_of(world, name)) for name in "abc"} == {
            "a": {"b", "c"},
            "b": {"a", "c"},
            "c": {"a", "b"},
        }
        before = {each.name: each.sent for each in world.network_of("a").neighbours}
        for _ in range(10):
            publisher.publish(SLOW)
            world.run(0.1)
        assert peers_of(world, "a")["c"]["sent"] >= 10
        assert peers_of(world, "c")["a"]["received"] >= 10
        sent = {each.name: each.sent for each in world.network_of("a").neighbours}
        # Progress of the other flows, and tables.
        assert sent["c"] - before["c"] < 10
        publish_both(world, publisher)
        settle(world, publisher, reader)
        assert asked(world, "c") == 0
        for name, other in ("ab", "bc", "ac"):
            assert (
                world.network.connections(f"link/{name}/{other}")
                + (world.network.connections(f"link/{other}/{name}"))
                == 2
            )


@pytest.mark.parametrize("seed", SEEDS)
def test_a_link_of_an_instance_that_breaks_alone_loses_nothing(seed: int) -> None:
    with NetworkWorld(seed) as world:
        publisher, reader = start(world, STACKS, STACKS, STACKS)
        other = Reader(world, world.client("other", "b"))
        world.run_until(lambda: other.is_flowing)
        before = reconnections(world)
        for _ in range(5):
            for _ in range(3):
                publish_both(world, publisher, 1)
                publisher.publish(SLOW)
                cut(world, *world.random.choice(["ac", "ca", "ab"]))
            publish_both(world, publisher, 3)
            world.run(world.random.uniform(0.0, 2.0))
        settle(world, publisher, reader, other, seconds=30.0)
        assert reconnections(world) == before
        assert {*peers_of(world, "a")} == {"b", "c"}
        assert {*peers_of(world, "c")} == {"a", "b"}


@pytest.mark.parametrize("seed", SEEDS)
def test_events_of_a_broken_link_come_over_the_network_at_once(seed: int) -> None:
    with NetworkWorld(seed) as world:
        publisher, reader = start(world, STACKS, STACKS)
        for name in "ab":
            # No new connection is made.
            links_of(world, name).stop()
        cut(world, "a", "b")
        world.run(0.1)
        publisher.publish(SLOW)
        world.run(0.2)
        reader.read()
        assert len(reader.events) == 1
        assert world.are_linked("a", "b")


def hold_credit(links: Neighbours) -> None:
    """Let a node handle messages of links too slowly, until `release_credit`."""
    held: dict[str, int] = {}

    def hold(name: str, count: int) -> None:
        held[name] = held.get(name, 0) + count

    links.return_credit = hold  # type: ignore[method-assign]
    links.held = held  # type: ignore[attr-defined]


def release_credit(links: Neighbours) -> None:
    del links.return_credit
    for name, count in links.held.items():  # type: ignore[attr-defined]
        links.return_credit(name, count)


def flood(world: NetworkWorld, publisher: Publisher) -> None:
    for _ in range(400):
        publisher.publish(SLOW, size=4_000)
        world.run(0.005)


@pytest.mark.parametrize("window", [WINDOW, 2 * WINDOW])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_flood_of_an_instance_fills_its_window_and_delays_no_other_stream(
    seed: int, window: int
) -> None:
    with NetworkWorld(seed) as world:
        options = MspacesSettings(window_bytes=window)
        stacks = {PATTERN: attrs.evolve(RADAR, link_options=options)}
        publisher, reader = start(world, stacks, stacks, stacks)
        links = links_of(world, "c")._links
        hold_credit(links)
        flood(world, publisher)
        at_c = links.get("a")
        assert at_c is not None and 0.75 * window < at_c.received_bytes <= window
        reader.read()
        assert len(reader.events) < 300
        for _ in range(10):
            reader.read()
            before = len(reader.events)
            publisher.publish(FAST)
            world.run(0.05)
            reader.read()
            assert [each.header.stream for each in reader.events[before:]] == [FAST]
        release_credit(links)
        settle(world, publisher, reader)


def test_a_flood_on_shared_links_delays_another_stream() -> None:
    with NetworkWorld(1) as world:
        default = StackInstance(DEFAULT_STACK, link_options=RADAR.link_options)
        stacks = {PATTERN: SHARED, FAST: default}
        publisher, reader = start(world, stacks, stacks)
        hold_credit(world.network_of("b").neighbours)
        flood(world, publisher)
        reader.read()
        before = len(reader.events)
        publisher.publish(FAST)
        world.run(1.0)
        reader.read()
        assert len(reader.events) == before
        release_credit(world.network_of("b").neighbours)
        settle(world, publisher, reader)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_that_stops_sends_all_frames_of_an_instance(seed: int) -> None:
    with NetworkWorld(seed) as world:
        publisher, reader = start(world, STACKS, STACKS)
        channel = channel_of(world, "b", "a")
        assert channel is not None
        channel.pause()
        for _ in range(20):
            publisher.publish(SLOW)
        world.run_until(lambda: len(publisher.receipts) == 20)
        # The links of the network have nothing left to send.
        world.clock.callLater(0.5, channel.resume)
        world.stop("a")
        read(world, reader, seconds=1.0)
        assert len(reader.events) == 20


OTHERS = {
    "no instance": {},
    "shared links": {PATTERN: SHARED},
    "another instance": {PATTERN: attrs.evolve(RADAR, name="boats")},
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_without_such_links_gets_the_frames_over_the_network(seed: int, other: str) -> None:
    with NetworkWorld(seed) as world:
        publisher, reader = start(world, STACKS, STACKS, OTHERS[other])
        world.run(30.0)
        assert {*peers_of(world, "a")} == {"b"}
        failures = [world.network_of(name).membership.failed_handshakes for name in "abc"]
        refusals = sum(each.get("stack-mismatch", 0) for each in failures)
        # At most one by each node of a pair, counted at both ends.
        assert refusals <= (8 if other == "another instance" else 4)
        world.run(120.0)
        assert sum(each.get("stack-mismatch", 0) for each in failures) == refusals
        publish_both(world, publisher)
        settle(world, publisher, reader)
        assert asked(world, "c") == 0
        # It has the instance after a restart.
        set_stacks(world, "c", STACKS)
        world.run(4.0)
        publish_both(world, publisher)
        settle(world, publisher, reader)
        assert {*peers_of(world, "a")} == {"b", "c"}


def test_a_node_that_refused_is_dialled_after_its_restart() -> None:
    with NetworkWorld(1) as world:
        publisher, reader = start(world, {}, STACKS)
        (links,) = cast(Any, world["b"].transports).snapshot()[1]["links"]
        assert (links["refused"], links["peers"]) == ({"stack-mismatch": 1}, [])
        set_stacks(world, "a", STACKS)
        world.run(4.0)
        assert {*peers_of(world, "b")} == {"a"}
        publish_both(world, publisher)
        settle(world, publisher, reader)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_of_an_earlier_version_stays_in_the_network(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with NetworkWorld(seed) as world:
        publisher, reader = start(world, STACKS, STACKS)
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
        assert world.are_linked("a", "c") and {*peers_of(world, "a")} == {"b"}


@pytest.mark.parametrize("seed", SEEDS)
def test_frames_cross_clusters_on_links_of_the_instance(seed: int) -> None:
    with NetworkWorld(seed) as world:
        publisher, _ = start(world, STACKS)
        for name, joined in (("b", {"gateways": ["a"]}), ("c", {"join": ["b"]})):
            world.add(name, "two", start=False, **joined)  # type: ignore[arg-type]
            world.set_stacks(name, STACKS)
            world.start(name)
        world.run(5.0)
        assert {*peers_of(world, "b")} == {"a", "c"}
        reader = Reader(world, world.client("far", "c"))
        world.run_until(lambda: reader.is_flowing)
        before = peers_of(world, "b")["a"]["received"]
        publish_both(world, publisher)
        settle(world, publisher, reader, seconds=1.0)
        assert peers_of(world, "b")["a"]["received"] - before >= 10
        assert peers_of(world, "c")["b"]["received"] >= 10
        assert asked(world, "c") == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_events_above_the_clearance_use_the_links_of_the_network(seed: int) -> None:
    with NetworkWorld(seed) as world:
        stacks = {PATTERN: attrs.evolve(RADAR, clearance=SecurityLevel.LOW)}
        publisher, reader = start(world, stacks, stacks)
        seen: list[int] = []
        links = links_of(world, "a")
        can_carry = links.can_carry

        def watch(name: str, rank: int) -> bool:
            carries = can_carry(name, rank)
            if carries:
                seen.append(rank)
            return carries

        links.can_carry = watch  # type: ignore[method-assign]
        for level in (SecurityLevel.LOW, SecurityLevel.MED) * 10:
            publisher.publish(SLOW, level=level)
            world.run(0.1)
        settle(world, publisher, reader)
        assert len(reader.events) == 20
        assert seen and set(seen) == {SecurityLevel.LOW.rank}


def test_a_link_ends_with_that_of_the_network() -> None:
    with NetworkWorld(1) as world:
        start(world, STACKS, STACKS)
        assert peers_of(world, "a")
        world.network_of("a").neighbours.close_link("b", Closed("for the test"))
        world.run(0.01)
        assert not peers_of(world, "a")
        world.run(5.0)
        assert {*peers_of(world, "a")} == {"b"} and {*peers_of(world, "b")} == {"a"}


@pytest.mark.parametrize("seed", seeds(2, 20))
def test_changes_of_links_lose_no_event_under_faults(seed: int) -> None:
    with NetworkWorld(seed) as world:
        publisher, reader = start(world, STACKS, STACKS, STACKS)
        readers = [
            reader,
            *(Reader(world, world.client(f"at-{name}", name), durable="d") for name in "ab"),
        ]
        world.run_until(lambda: all(each.is_flowing for each in readers))
        for turn in range(12):
            name, other = world.random.sample("abc", 2)
            if turn % 4 == 0:
                set_stacks(world, name, world.random.choice([STACKS, *OTHERS.values()]))
            elif turn % 4 == 1:
                world.cut(name, other)
            elif PATTERN in world.network_of(name).driver.instance_links and other in peers_of(
                world, name
            ):
                cut(world, name, other)
            publish_both(world, publisher, 3)
            read(world, *readers, seconds=world.random.uniform(0.1, 2.0))
        settle(world, publisher, *readers, seconds=60.0)
