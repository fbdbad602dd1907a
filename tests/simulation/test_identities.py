"""Identity of clients: incarnations, credentials, rights and clearance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from broker.client.client import Client
from broker.client.received import ALL
from broker.config import Settings
from broker.config.identity import AccountSettings
from broker.config.stored_secret import StoredSecret
from broker.errors import (
    AuthenticationFailed,
    BrokerError,
    ClearanceTooLow,
    Closed,
    IncarnationRefused,
    NotAllowed,
    SessionSuperseded,
    TooManySubscriptions,
)
from broker.event.envelope import SecurityLevel
from broker.event.stream import StreamPattern
from broker.identity.secret import hash_secret
from broker.testing.flights import Interest
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulation import World
from tests.simulation.simulated_client import Reader, read_log


def asdi(pattern: str = "asdi.>") -> Interest:
    return Interest(pattern, "true()", lambda stream, altitude: True)


@pytest.fixture
def world() -> Iterator[World]:
    with World(1) as world:
        yield world


def final_error(client: Client) -> BrokerError | None:
    """Return the error that stopped the client for good."""
    failed: list[Any] = []
    awaited: Any = client.when_connected()
    awaited.addErrback(lambda failure: failed.append(failure.value))
    return failed[0] if failed else None


# ----------------------------------------------------------------------------- two processes


def test_later_process_supersedes_an_earlier_one(world: World) -> None:
    first = world.client("a", incarnation=1)
    world.run(1.0)
    second = world.client("a", incarnation=2)
    world.run(1.0)
    assert second.connected and not first.connected
    assert isinstance(final_error(first), SessionSuperseded)
    (session,) = world.node.acceptor.sessions
    assert session.incarnation == 2
    world.run(60.0)
    assert second.connected


@pytest.mark.parametrize("incarnation", [1, 2])
def test_process_with_an_earlier_or_equal_incarnation_is_refused(
    world: World, incarnation: int
) -> None:
    second = world.client("a", incarnation=2)
    world.run(1.0)
    other = world.client("a", incarnation=incarnation)
    world.run(1.0)
    assert isinstance(final_error(other), IncarnationRefused)
    assert second.connected
    world.run(1.0)
    world.kill_client(second)
    world.kill_node()
    world.start_node()
    late_client = world.client("a", incarnation=incarnation)
    world.run(5.0)
    assert isinstance(final_error(late_client), IncarnationRefused)
    assert world.client("a", incarnation=3)


def test_sequence_numbers_start_again_with_each_incarnation(world: World) -> None:
    reader = Reader(world, world.client("reader"))
    world.run(1.0)
    for incarnation in (1, 2, 3):
        publisher = Publisher(world.client("p", incarnation=incarnation))
        for _ in range(5):
            publisher.publish()
        world.run(2.0)
        assert len(publisher.receipts) == 5
    reader.read()
    assert [e.event_id.incarnation for e in reader.events] == [1] * 5 + [2] * 5 + [3] * 5
    reader.check(read_log(world))
    world.check_outcomes()


def test_durable_subscription_moves_to_the_later_process(world: World) -> None:
    publisher = Publisher(world.client("publisher"))
    first = Reader(world, world.client("a", incarnation=1), durable="d")
    world.run(1.0)
    publisher.publish()
    world.run(1.0)
    first.read()
    first.read()
    world.run(1.0)
    second = Reader(world, world.client("a", incarnation=2), durable="d")
    world.run(1.0)
    publisher.publish()
    world.run(1.0)
    second.read()
    assert [e.place.offset for e in first.events] == [1]
    assert [e.place.offset for e in second.events] == [2]
    assert first.subscription is not None and first.subscription.over


# ----------------------------------------------------------------------------- accounts


def patterns(*texts: str) -> tuple[StreamPattern, ...]:
    return tuple(StreamPattern.parse(text) for text in texts)


STORED = StoredSecret.parse(hash_secret("right"))
ACCOUNTS = (
    AccountSettings(
        name="feed",
        secret=(STORED,),
        client_ids=("feed", "feed-*"),
        publish=patterns("asdi.>"),
        clearance=SecurityLevel.MED,
    ),
    AccountSettings(
        name="low",
        secret=(STORED,),
        client_ids=("low-*",),
        subscribe=patterns("asdi.>", "public"),
        clearance=SecurityLevel.LOW,
    ),
    AccountSettings(
        name="part",
        secret=(STORED,),
        publish=patterns(">"),
        subscribe=patterns(">"),
        deny_publish=patterns("asdi.secret.>"),
        deny_subscribe=patterns("asdi.secret.>"),
    ),
    AccountSettings(
        name="all",
        secret=(STORED,),
        client_ids=("*",),
        publish=patterns(">"),
        subscribe=patterns(">"),
        clearance=SecurityLevel.HIGH,
        administer=True,
    ),
)


@pytest.fixture
def guarded() -> Iterator[World]:
    settings = attrs.evolve(Settings(), accounts=ACCOUNTS)
    limits = attrs.evolve(
        settings.limits, max_sessions_per_account=3, max_subscriptions_per_client=4
    )
    with World(1, settings=attrs.evolve(settings, limits=limits)) as world:
        yield world


def member(world: World, client_id: str, account: str, secret: str = "right") -> Client:
    return world.client(client_id, account=account, secret=secret)


@pytest.mark.parametrize(
    ("account", "secret"),
    [("feed", "wrong"), ("nobody", "right"), ("", ""), ("feed", ""), ("feed", "x" * 2000)],
)
def test_wrong_or_missing_credentials_are_refused_for_good(
    guarded: World, account: str, secret: str
) -> None:
    client = member(guarded, "feed", account, secret)
    guarded.run(5.0)
    error = final_error(client)
    assert isinstance(error, AuthenticationFailed)
    assert not list(guarded.node.acceptor.sessions)
    assert guarded.node.acceptor.refused_connections == {"authentication-failed": 1}
    with pytest.raises(AuthenticationFailed):
        client.subscribe()


def test_account_can_not_use_client_ids_of_others(guarded: World) -> None:
    client = member(guarded, "all", "feed")
    guarded.run(1.0)
    assert isinstance(final_error(client), NotAllowed)


def test_sessions_of_an_account_are_limited(guarded: World) -> None:
    clients = [member(guarded, f"feed-{n}", "feed") for n in range(4)]
    other = member(guarded, "other", "all")
    guarded.run(1.0)
    (late,) = (client for client in clients if not client.connected)
    assert other.connected
    assert final_error(late) is None
    clients.remove(late)
    guarded.wait(clients[0].close())
    guarded.run(10.0)
    assert late.connected


def test_subscriptions_of_a_client_are_limited(guarded: World) -> None:
    client = member(guarded, "a", "all")
    readers = [Reader(guarded, client) for _ in range(5)]
    guarded.run(1.0)
    assert [reader.error is None for reader in readers] == [True] * 4 + [False]
    assert isinstance(readers[4].error, TooManySubscriptions)
    assert readers[0].subscription is not None
    readers[0].subscription.unsubscribe()
    guarded.run(1.0)
    again = Reader(guarded, client)
    guarded.run(1.0)
    assert again.error is None and again.subscription is not None


def test_stored_durable_subscriptions_count_against_the_limit(guarded: World) -> None:
    for incarnation in range(1, 6):
        client = guarded.client("a", incarnation=incarnation, account="all", secret="right")
        reader = Reader(guarded, client, durable=f"d-{incarnation}")
        guarded.run(1.0)
    assert isinstance(reader.error, TooManySubscriptions)
    assert guarded.node.durables.count_of_client("a") == 4


def test_rights_apply_to_each_stream(guarded: World) -> None:
    feed, low = member(guarded, "feed", "feed"), member(guarded, "low-1", "low")
    expected_rights = {
        ">": False,
        "asdi.>": True,
        "asdi.*": True,
        "public": True,
        "other": False,
        "*": False,
        "publicity": False,
    }
    readers = {pattern: Reader(guarded, low, asdi(pattern)) for pattern in expected_rights}
    guarded.run(1.0)
    assert {pattern: reader.error is None for pattern, reader in readers.items()} == expected_rights
    assert all(isinstance(r.error, NotAllowed) for r in readers.values() if r.error is not None)
    forbidden = Reader(guarded, feed, asdi())
    publisher = Publisher(feed)
    for stream in ("asdi.x", "other", "asdi", "asdi.y"):
        publisher.publish(stream)
    guarded.run(1.0)
    assert isinstance(forbidden.error, NotAllowed)
    results = [result for _, result in publisher.results]
    assert [isinstance(result, NotAllowed) for result in results] == [False, True, True, False]
    guarded.check_outcomes()
    assert guarded.node.input.outcomes.refused == {"not-allowed": 2}


def test_a_denied_stream_is_closed_to_each_request(guarded: World) -> None:
    source = Publisher(member(guarded, "source", "all"))
    source.publish("asdi.secret.a")
    guarded.run(1.0)
    part = member(guarded, "part", "part")
    expected_rights = {
        ">": False,
        "asdi.>": False,
        "*.*.a": False,
        "asdi.*.*": False,
        "asdi.secret.a": False,
        "asdi.secret": True,
        "*.open.a": True,
    }
    for start, durable in ((None, ""), (ALL, ""), (ALL, "kept")):
        for number, (pattern, is_open) in enumerate(expected_rights.items()):
            name = durable and f"{durable}-{number}"
            reader = Reader(guarded, part, asdi(pattern), start=start, durable=name)
            guarded.run(1.0)
            assert isinstance(reader.error, NotAllowed) is not is_open, pattern
            if reader.subscription is not None:
                reader.read()
                assert not reader.events
                reader.subscription.unsubscribe(forget=True)
                guarded.run(1.0)
    with pytest.raises(NotAllowed, match=r"asdi\.secret\.> is denied"):
        guarded.wait(part.ask("recover-explain", query="true()", streams="asdi.>"))
    explained = guarded.wait(part.ask("explain", query="true()", streams="asdi.>"))
    assert explained["subscription"]["allowed"] is False
    publisher = Publisher(part)
    for stream in ("asdi.secret.b", "asdi.open"):
        publisher.publish(stream)
    guarded.run(1.0)
    refused = [isinstance(result, NotAllowed) for _, result in publisher.results]
    assert refused == [True, False]


def test_events_reach_only_cleared_subscribers(guarded: World) -> None:
    publisher = Publisher(member(guarded, "source", "all"))
    low = Reader(guarded, member(guarded, "low-1", "low"), asdi())
    high = Reader(guarded, member(guarded, "reader", "all"))
    guarded.run(1.0)
    levels = [*SecurityLevel] * 3
    for level in levels:
        publisher.publish(level=level)
    guarded.run(2.0)
    for reader in (low, high):
        reader.read()
    assert [e.header.security_level for e in high.events] == levels
    assert [e.header.security_level for e in low.events] == [SecurityLevel.LOW] * 3
    guarded.check_outcomes()
    (link,) = (
        s.delivery for s in guarded.node.acceptor.sessions if s.identity.client_id == "low-1"
    )
    (feed,) = link.feeds
    assert (feed.outcomes.denied, feed.outcomes.delivered) == (6, 3)
    assert low.subscription is not None
    assert [offset for _, offset in low.subscription.position.marks.values()] == [9]


def test_clearance_applies_to_events_from_the_log(guarded: World) -> None:
    publisher = Publisher(member(guarded, "source", "all"))
    for level in [*SecurityLevel] * 3:
        publisher.publish(level=level)
    guarded.run(2.0)
    client = member(guarded, "low-1", "low")
    low = Reader(guarded, client, asdi(), start=ALL)
    guarded.run(2.0)
    low.read()
    assert {e.header.security_level for e in low.events} == {SecurityLevel.LOW}
    (link,) = (
        s.delivery for s in guarded.node.acceptor.sessions if s.identity.client_id == "low-1"
    )
    (feed,) = link.feeds
    assert (feed.outcomes.denied, feed.outcomes.delivered) == (6, 3)
    guarded.check_outcomes()


def test_publishing_above_the_clearance_is_refused(guarded: World) -> None:
    publisher = Publisher(member(guarded, "feed", "feed"))
    for level in SecurityLevel:
        publisher.publish(level=level)
    guarded.run(1.0)
    refused = {
        level: isinstance(result, ClearanceTooLow)
        for level, (_, result) in zip(SecurityLevel, publisher.results, strict=True)
    }
    assert refused == {
        SecurityLevel.LOW: False,
        SecurityLevel.MED: False,
        SecurityLevel.HIGH: True,
    }
    guarded.check_outcomes()


def test_only_administrators_get_the_status(guarded: World) -> None:
    plain, admin = member(guarded, "feed", "feed"), member(guarded, "root", "all")
    guarded.run(1.0)
    with pytest.raises(NotAllowed):
        guarded.wait(plain.ask("status"))
    assert guarded.wait(admin.ask("status"))["node"] == "simulated"
    assert ["flight", "1.0"] in [list(row) for row in guarded.wait(plain.ask("dtd-list"))]


def test_closed_client_raises_closed(world: World) -> None:
    client = world.client("a")
    world.run(1.0)
    world.wait(client.close())
    with pytest.raises(Closed):
        client.subscribe()
