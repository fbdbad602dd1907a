from __future__ import annotations

from functools import partial

import pytest

from broker.event.envelope import SecurityLevel
from broker.testing.flights import INTERESTS
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read
from tests.seeds import seeds

LEVELS = (SecurityLevel.LOW, SecurityLevel.MED, SecurityLevel.HIGH)
KEY = b"k" * 32


def publish_all(world: NetworkWorld, publisher: Publisher, rounds: int = 10) -> None:
    for _ in range(rounds):
        for level in LEVELS:
            publisher.publish(level=level)
        world.run(0.05)


def levels(reader: Reader) -> list[SecurityLevel]:
    return [event.header.security_level for event in reader.events]


def requested(world: NetworkWorld, name: str) -> int:
    traffic = world.network_of(name).driver.traffic
    assert traffic is not None
    return traffic.receiver.counts.asked


def denied(world: NetworkWorld, name: str) -> int:
    traffic = world.network_of(name).driver.traffic
    assert traffic is not None
    return traffic.denied


@pytest.mark.parametrize("seed", seeds(1, 2))
@pytest.mark.parametrize("far", [False, True], ids=["same cluster", "other cluster"])
@pytest.mark.parametrize(
    ("trusted", "cleared", "passes"),
    [(False, SecurityLevel.HIGH, 2), (True, SecurityLevel.HIGH, 3), (True, SecurityLevel.LOW, 1)],
)
def test_link_carries_only_levels_it_is_cleared_for(
    seed: int, far: bool, trusted: bool, cleared: SecurityLevel, passes: int
) -> None:
    with NetworkWorld(seed) as world:
        key = world.key_file(KEY) if trusted else None
        add = partial(world.add, cleartext_clearance=cleared, clearance=cleared, key_file=key)
        add("a", "one")
        if far:
            add("b", "two", gateways=["a"])
        else:
            add("b", "one", join=["a"])
        world.run(3.0)
        assert world.are_linked("a", "b")
        network, reader_at = world.network_of("a"), world.network_of("b").membership.node.address
        passing = [network.is_cleared(reader_at, level.rank) for level in LEVELS]
        assert passing == [True] * passes + [False] * (3 - passes)
        publisher = Publisher(world.client("publisher", "a"))
        near = Reader(world, world.client("near", "a"))
        reader = Reader(world, world.client("reader", "b"))
        world.run(2.0)
        publish_all(world, publisher)
        read(world, near, reader, seconds=10.0)
        assert levels(near) == list(LEVELS) * 10
        assert levels(reader) == list(LEVELS[:passes]) * 10
        assert denied(world, "a") == 10 * (3 - passes)
        assert requested(world, "b") == 0
        world.run(60.0)
        assert requested(world, "b") == 0
        world.cut("a", "b", refuse=True)
        publish_all(world, publisher)
        world.run(5.0)
        world.heal("a", "b")
        read(world, reader, seconds=60.0)
        assert levels(reader) == list(LEVELS[:passes]) * 20
        before = requested(world, "b")
        world.run(60.0)
        assert requested(world, "b") == before
        world.check_outcomes()


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_longer_route_is_taken_if_only_it_is_cleared(seed: int) -> None:
    with NetworkWorld(seed) as world:
        key = world.key_file(KEY)
        add = partial(world.add, key_file=key, cleartext_clearance=SecurityLevel.HIGH)
        for name in "ab":
            # Their own link is cleared for little.
            add(name, f"c-{name}")
        add("c", "c-c", gateways=["a", "b"])
        add("d", "c-d", gateways=["a", "c"], clearance=SecurityLevel.LOW)
        world.run(3.0)
        publisher = Publisher(world.client("publisher", "a"))
        high = Reader(world, world.client("high", "b"))
        low = Reader(world, world.client("low", "d"))
        world.run(2.0)
        publish_all(world, publisher)
        read(world, high, low, seconds=10.0)
        assert levels(high) == list(LEVELS) * 10
        assert levels(low) == [SecurityLevel.LOW] * 10


def test_high_events_cross_no_cleartext_link_by_default() -> None:
    with NetworkWorld(1) as world:
        key = world.key_file(KEY)
        world.add("a", "one", key_file=key)
        world.add("b", "two", gateways=["a"], key_file=key)
        world.run(3.0)
        publisher = Publisher(world.client("publisher", "a"))
        reader = Reader(world, world.client("reader", "b"))
        world.run(2.0)
        publish_all(world, publisher)
        read(world, reader, seconds=5.0)
        assert levels(reader) == [SecurityLevel.LOW, SecurityLevel.MED] * 10


@pytest.mark.parametrize("seed", seeds(1, 2))
def test_outcomes_add_up_with_events_denied_on_the_way(seed: int) -> None:
    """One outcome for each place of each origin (T40)."""
    with NetworkWorld(seed) as world:
        key = world.key_file(KEY)
        add = partial(world.add, key_file=key, cleartext_clearance=SecurityLevel.HIGH)
        add("a", "one")
        add("b", "two", gateways=["a"], clearance=SecurityLevel.LOW)
        world.run(3.0)
        publishers = [Publisher(world.client(f"p-{name}", name)) for name in "ab"]
        reader_of_all = Reader(world, world.client("all", "b"))
        world.run(2.0)
        for publisher in publishers:
            publish_all(world, publisher)
        world.run(5.0)
        part = Reader(world, world.client("part", "b"), INTERESTS[3])
        world.run(2.0)
        publish_all(world, publishers[0], 5)
        read(world, reader_of_all, part, seconds=5.0)
        world.check_outcomes()
        outcomes = {
            session.identity.client_id: feed.outcomes
            for session in world["b"].acceptor.sessions
            for feed in session.delivery.feeds
        }
        all_outcomes = outcomes["all"]
        # 45 events from `a`, 15 of which pass, and 30 of its own.
        assert (all_outcomes.seen, all_outcomes.delivered, all_outcomes.elsewhere) == (45, 45, 30)
        assert all_outcomes.elsewhere == denied(world, "a")
        assert outcomes["part"].seen + outcomes["part"].elsewhere == 15
        assert outcomes["part"].delivered == 0


@pytest.mark.parametrize(("trusted", "passes"), [(False, LEVELS[:1]), (True, LEVELS[:2])])
def test_multicast_group_gets_only_levels_it_is_cleared_for(
    trusted: bool, passes: tuple[SecurityLevel, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    with NetworkWorld(1) as world:
        world.add(
            *("a", "one"),
            key_file=world.key_file(KEY) if trusted else None,
            untrusted_clearance=SecurityLevel.LOW,
            cleartext_clearance=SecurityLevel.MED,
        )
        network = world.network_of("a")
        monkeypatch.setattr(type(network.group), "receivers", frozenset({"b"}))
        assert tuple(level for level in LEVELS if network._group_receivers(level.rank)) == passes
