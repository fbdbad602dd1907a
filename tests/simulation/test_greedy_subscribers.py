"""A limit refuses a client that subscribes without end, and other clients are not delayed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import pytest

from broker.client.client import Client
from broker.client.subscription import Subscription
from broker.config import Settings
from broker.errors import TooManySubscriptions
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulation import World
from broker.transport.message import Peer
from broker.transport.p2p.wire import MESSAGE_COST
from tests.simulation.simulated_client import Reader, read_log

#: Of one read of a socket.
WINDOW = 64 * 1024
#: Bytes of the shortest message that asks for a subscription.
LEAST_MESSAGE = 40
LEASE = 60.0
#: They grow with subscriptions.
HELD = ("subscriptions", "distinct_queries", "templates")


def settings(max_subscriptions: int | None = None) -> Settings:
    usual = Settings()
    limits = attrs.evolve(usual.limits, window_bytes=WINDOW, session_lease=LEASE)
    if max_subscriptions is not None:
        limits = attrs.evolve(limits, max_subscriptions_per_client=max_subscriptions)
    return attrs.evolve(usual, limits=limits)


class ReadSizes:
    def __init__(self, world: World, client: Client) -> None:
        (session,) = [
            each
            for each in world.node.acceptor.sessions
            if each.identity.client_id == client.client_id
        ]
        self.sizes: list[int] = []
        self.total = 0
        inner = session.messages_received

        def counted(peer: Peer, batch: Sequence[bytes]) -> None:
            self.sizes.append(len(batch))
            self.total += len(batch)
            inner(peer, batch)

        session.messages_received = counted  # type: ignore[method-assign]


class Greedy:
    def __init__(self, world: World, client_id: str = "greedy") -> None:
        self._world = world
        self.client = world.client(client_id)
        self.accepted: list[Subscription] = []
        self.refused: list[BaseException] = []

    def ask(self, first: int, last: int) -> None:
        for number in range(first, last):
            query = (
                f"/flight/flightleg/altitude = {number}",
                f"/flight/flightleg[altitude > {number} and altitude < {number + 2}]",
                f"starts-with(/flight/id, 'F{number}')",
                f"not(/flight/flightleg/altitude != {number})",
            )[number % 4]
            asked: Any = self.client.subscribe(query, "greedy.>")
            asked.addCallbacks(
                self.accepted.append, lambda failure: self.refused.append(failure.value)
            )

    @property
    def answered(self) -> int:
        return len(self.accepted) + len(self.refused)


def engine_sizes(world: World) -> dict[str, float]:
    statistics = world.node.matcher.statistics()
    return {name: statistics[name] for name in HELD}


def wait_for_events(world: World, reader: Reader, count: int) -> None:
    """Wait in short steps."""
    for _ in range(1_000):
        reader.read()
        if len(reader.events) >= count:
            return
        world.run(0.001)
    raise AssertionError(f"{len(reader.events)} events came, not {count}")


@pytest.fixture
def small() -> Iterator[World]:
    with World(1, settings=settings(20)) as world:
        yield world


class OtherClients:
    """A greedy client must not delay these."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.publisher = Publisher(world.client("publisher"))
        self.reader = Reader(world, world.client("reader"))
        world.run(1.0)
        self.engine_sizes = engine_sizes(world)
        """Before the greedy client came."""

    def publish_and_read_during(self, greedy: Greedy, count: int) -> None:
        """Publish and read event by event until the greedy client has `count` answers.

        Virtual time shows no delay, so the greedy client's messages are counted. An event passes a
        few reads of one window each.
        """
        read_sizes = ReadSizes(self._world, greedy.client)
        greedy.ask(0, count)
        passed = []
        while greedy.answered < count:
            seen, total = len(self.reader.events), read_sizes.total
            self.publisher.publish()
            wait_for_events(self._world, self.reader, seen + 1)
            passed.append(read_sizes.total - total)
        assert max(read_sizes.sizes) <= WINDOW // (MESSAGE_COST + LEAST_MESSAGE)
        assert max(passed) <= 5 * max(read_sizes.sizes)
        assert len(passed) > count // 1_000
        self.reader.check(read_log(self._world))

    def check_resources_are_freed(self) -> None:
        assert engine_sizes(self._world) == self.engine_sizes
        self.reader.read()
        seen = len(self.reader.events)
        self.publisher.publish()
        wait_for_events(self._world, self.reader, seen + 1)
        self.reader.check(read_log(self._world))
        self._world.check_outcomes()


@pytest.mark.slow
def test_default_limit_refuses_all_further_queries() -> None:
    limit = Settings().limits.max_subscriptions_per_client
    with World(1, settings=settings()) as world:
        others = OtherClients(world)
        greedy = Greedy(world)
        world.run(1.0)
        others.publish_and_read_during(greedy, 2 * limit)
        assert len(greedy.accepted) == limit
        assert {type(error) for error in greedy.refused} == {TooManySubscriptions}
        assert {str(error) for error in greedy.refused} == {
            f"{limit} subscriptions are the limit of a client"
        }
        assert (
            engine_sizes(world)["distinct_queries"]
            == others.engine_sizes["distinct_queries"] + limit
        )
        others.publisher.publish("greedy.x", altitude=4)
        world.run(1.0)
        assert sum(len(each.take_ready()) for each in greedy.accepted) == 1
        world.wait(greedy.client.close())
        world.run(1.0)
        others.check_resources_are_freed()


@pytest.mark.slow
def test_client_uses_a_raised_limit_without_delaying_others() -> None:
    with World(1, settings=settings(5_000)) as world:
        others = OtherClients(world)
        greedy = Greedy(world)
        world.run(1.0)
        others.publish_and_read_during(greedy, 5_000)
        assert greedy.refused == []
        assert engine_sizes(world)["templates"] <= others.engine_sizes["templates"] + 4
        world.kill_client(greedy.client)
        world.run(LEASE + 1.0)
        others.check_resources_are_freed()


@pytest.mark.parametrize("how", ["unsubscribes", "closes", "is killed"])
def test_resources_of_a_greedy_client_are_freed(small: World, how: str) -> None:
    others = OtherClients(small)
    greedy = Greedy(small)
    greedy.ask(0, 50)
    small.run_until(lambda: greedy.answered == 50)
    assert (len(greedy.accepted), len(greedy.refused)) == (20, 30)
    full = engine_sizes(small)
    assert full["subscriptions"] == others.engine_sizes["subscriptions"] + 20
    if how == "unsubscribes":
        for each in greedy.accepted:
            each.unsubscribe()
        small.run(1.0)
    elif how == "closes":
        small.wait(greedy.client.close())
        small.run(1.0)
    else:
        small.kill_client(greedy.client)
        small.run(LEASE - 1.0)
        assert engine_sizes(small) == full
        small.run(2.0)
    others.check_resources_are_freed()


def test_unsubscribing_frees_room_for_new_subscriptions(small: World) -> None:
    greedy = Greedy(small)
    greedy.ask(0, 25)
    small.run_until(lambda: greedy.answered == 25)
    for each in greedy.accepted[:5]:
        each.unsubscribe()
    greedy.ask(25, 31)
    small.run_until(lambda: greedy.answered == 31)
    assert (len(greedy.accepted), len(greedy.refused)) == (25, 6)
    assert engine_sizes(small)["subscriptions"] == 20
    other = Greedy(small, "other")
    other.ask(0, 20)
    small.run_until(lambda: other.answered == 20)
    assert other.refused == []
    assert engine_sizes(small)["distinct_queries"] < 40
