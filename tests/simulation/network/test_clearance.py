"""Events go only where links and nodes are cleared for them."""

from __future__ import annotations

import pytest

from broker.event.envelope import SecurityLevel
from broker.testing.simulated_network import NetworkWorld
from tests.seeds import seeds
from tests.simulation.network.watching import INTERESTS, Publisher, Reader, read

LEVELS = (SecurityLevel.LOW, SecurityLevel.MED, SecurityLevel.HIGH)
KEY = b"k" * 32


def publish_all(world: NetworkWorld, publisher: Publisher, rounds: int = 10) -> None:
    for _ in range(rounds):
        for level in LEVELS:
            publisher.publish(level=level)
        world.run(0.05)


def levels(reader: Reader) -> list[SecurityLevel]:
    return [event.header.security_level for event in reader.events]


def asked(world: NetworkWorld, name: str) -> int:
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
def test_a_link_carries_what_it_is_cleared_for(
    seed: int, far: bool, trusted: bool, cleared: SecurityLevel, passes: int
) -> None:
    with NetworkWorld(seed) as world:
        key = world.key_file(KEY) if trusted else None
        said = {"cleartext_clearance": cleared, "clearance": cleared, "key_file": key}
        world.add("a", "one", **said)
        if far:
            world.add("b", "two", gateways=["a"], **said)
        else:
            world.add("b", "one", join=["a"], **said)
        world.run(3.0)
        assert world.are_linked("a", "b")
        network, reader_at = world.network_of("a"), world.network_of("b").membership.node.address
        cleared = [network.is_cleared(reader_at, level.rank) for level in LEVELS]
        assert cleared == [True] * passes + [False] * (3 - passes)
        publisher = Publisher(world, world.client("publisher", "a"))
        near = Reader(world, world.client("near", "a"))
        reader = Reader(world, world.client("reader", "b"))
        world.run(2.0)
        publish_all(world, publisher)
        read(world, near, reader, seconds=10.0)
        assert levels(near) == list(LEVELS) * 10
        assert levels(reader) == list(LEVELS[:passes]) * 10
        assert denied(world, "a") == 10 * (3 - passes)
        # Who was denied something does not miss it.
        assert asked(world, "b") == 0
        world.run(60.0)
        assert asked(world, "b") == 0
        # Nor after it was away for a while, and has read pages.
        world.cut("a", "b", refuse=True)
        publish_all(world, publisher)
        world.run(5.0)
        world.heal("a", "b")
        read(world, reader, seconds=60.0)
        assert levels(reader) == list(LEVELS[:passes]) * 20
        before = asked(world, "b")
        world.run(60.0)
        assert asked(world, "b") == before
        world.check_outcomes()


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_a_longer_way_is_taken_where_that_is_cleared(seed: int) -> None:
    with NetworkWorld(seed) as world:
        key = world.key_file(KEY)
        for name in "ab":
            # Both trust what has the key, and are cleared for little between each other.
            world.add(name, f"c-{name}", key_file=key, cleartext_clearance=SecurityLevel.HIGH)
        said = {"key_file": key, "cleartext_clearance": SecurityLevel.HIGH}
        world.add("c", "c-c", gateways=["a", "b"], **said)
        world.add("d", "c-d", gateways=["a", "c"], clearance=SecurityLevel.LOW, **said)
        world.run(3.0)
        publisher = Publisher(world, world.client("publisher", "a"))
        high = Reader(world, world.client("high", "b"))
        low = Reader(world, world.client("low", "d"))
        world.run(2.0)
        publish_all(world, publisher)
        read(world, high, low, seconds=10.0)
        assert levels(high) == list(LEVELS) * 10
        assert levels(low) == [SecurityLevel.LOW] * 10


def test_what_is_secret_does_not_cross_a_link_in_cleartext_unless_that_is_wished() -> None:
    with NetworkWorld(1) as world:
        key = world.key_file(KEY)
        world.add("a", "one", key_file=key)
        world.add("b", "two", gateways=["a"], key_file=key)
        world.run(3.0)
        publisher = Publisher(world, world.client("publisher", "a"))
        reader = Reader(world, world.client("reader", "b"))
        world.run(2.0)
        publish_all(world, publisher)
        read(world, reader, seconds=5.0)
        assert levels(reader) == [SecurityLevel.LOW, SecurityLevel.MED] * 10


@pytest.mark.parametrize("seed", seeds(1, 2))
def test_outcomes_of_a_subscription_add_up_with_what_was_denied_on_its_way(seed: int) -> None:
    """Each place of each origin has one outcome (T40), also for who wants a part alone."""
    with NetworkWorld(seed) as world:
        key = world.key_file(KEY)
        said = {"key_file": key, "cleartext_clearance": SecurityLevel.HIGH}
        world.add("a", "one", **said)
        world.add("b", "two", gateways=["a"], clearance=SecurityLevel.LOW, **said)
        world.run(3.0)
        publishers = [Publisher(world, world.client(f"p-{name}", name)) for name in "ab"]
        all_of_it = Reader(world, world.client("all", "b"))
        world.run(2.0)
        for publisher in publishers:
            publish_all(world, publisher)
        world.run(5.0)
        # One that comes later counts from then on.
        part = Reader(world, world.client("part", "b"), INTERESTS[3])
        world.run(2.0)
        publish_all(world, publishers[0], 5)
        read(world, all_of_it, part, seconds=5.0)
        world.check_outcomes()
        outcomes = {
            session.identity.client_id: feed.outcomes
            for session in world["b"].reception.sessions
            for feed in session.link.feeds
        }
        whole = outcomes["all"]
        # 45 of the one node, of which 15 may pass; 30 of its own.
        assert (whole.seen, whole.delivered, whole.elsewhere) == (45, 45, 30)
        assert whole.elsewhere == denied(world, "a")
        assert outcomes["part"].seen + outcomes["part"].elsewhere == 15
        assert outcomes["part"].delivered == 0


@pytest.mark.parametrize(("trusted", "passes"), [(False, LEVELS[:1]), (True, LEVELS[:2])])
def test_a_group_is_sent_what_its_datagrams_are_cleared_for(
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
