"""A client that asks for all subscriptions that it can think of: a limit says no, others go on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import pytest

from broker.client.client import Client
from broker.client.subscription import Subscription
from broker.config import Settings
from broker.errors import TooManySubscriptions
from broker.testing.simulation import World
from broker.transport.p2p.wire import MESSAGE_COST
from tests.simulation.watching import Publisher, Reader, truths

#: As much as one read of a socket brings.
WINDOW = 64 * 1024
#: Bytes of the shortest message that asks for a subscription.
LEAST_MESSAGE = 40
LEASE = 60.0
#: What the node's engine and output hold for whoever asks.
HELD = ("subscriptions", "distinct_queries", "templates")


def settings(max_subscriptions: int | None = None) -> Settings:
    usual = Settings()
    limits = attrs.evolve(usual.limits, window_bytes=WINDOW, session_lease=LEASE)
    if max_subscriptions is not None:
        limits = attrs.evolve(limits, max_subscriptions_per_client=max_subscriptions)
    return attrs.evolve(usual, limits=limits)


class Turns:
    """How many messages of a client the node took in each turn."""

    def __init__(self, world: World, client: Client) -> None:
        (session,) = [
            each
            for each in world.node.reception.sessions
            if each.identity.client_id == client.client_id
        ]
        self.sizes: list[int] = []
        self.taken = 0
        inner = session.messages_received

        def counted(batch: Sequence[bytes]) -> None:
            self.sizes.append(len(batch))
            self.taken += len(batch)
            inner(batch)

        session.messages_received = counted  # type: ignore[method-assign]


class Greedy:
    """A client with what became of each of its subscriptions."""

    def __init__(self, world: World, client_id: str = "greedy") -> None:
        self._world = world
        self.client = world.client(client_id)
        self.kept: list[Subscription] = []
        self.refused: list[BaseException] = []

    def ask(self, first: int, last: int) -> None:
        """Ask for distinct queries of a few templates."""
        for number in range(first, last):
            query = (
                f"/flight/flightleg/altitude = {number}",
                f"/flight/flightleg[altitude > {number} and altitude < {number + 2}]",
                f"starts-with(/flight/id, 'F{number}')",
                f"not(/flight/flightleg/altitude != {number})",
            )[number % 4]
            asked: Any = self.client.subscribe(query, "greedy.>")
            asked.addCallbacks(self.kept.append, lambda failure: self.refused.append(failure.value))

    @property
    def answered(self) -> int:
        """How many were accepted or refused."""
        return len(self.kept) + len(self.refused)


def held(world: World) -> dict[str, float]:
    statistics = world.node.matcher.statistics()
    return {name: statistics[name] for name in HELD}


def arrive(world: World, reader: Reader, count: int) -> None:
    """Let so many events arrive, looking again and again."""
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


class Others:
    """A publisher and a reader who go on while a client asks for very much."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.publisher = Publisher(world, world.client("publisher"))
        self.reader = Reader(world, world.client("reader"))
        world.run(1.0)
        self.held = held(world)
        """What the node held when there were only these."""

    def go_on_beside(self, greedy: Greedy, count: int) -> None:
        """Publish and read, an event at a time, until the client has so many answers.

        Counted in requests, since time is virtual: each event passes a few turns of the client, and
        a turn is no more than its window holds.
        """
        turns = Turns(self._world, greedy.client)
        greedy.ask(0, count)
        passed = []
        while greedy.answered < count:
            seen, taken = len(self.reader.events), turns.taken
            self.publisher.publish()
            arrive(self._world, self.reader, seen + 1)
            passed.append(turns.taken - taken)
        assert max(turns.sizes) <= WINDOW // (MESSAGE_COST + LEAST_MESSAGE)
        assert max(passed) <= 5 * max(turns.sizes)
        assert len(passed) > count // 1_000
        self.reader.check(truths(self._world))

    def are_alone_again(self) -> None:
        """Nothing is left of anybody else, and they go on."""
        assert held(self._world) == self.held
        self.reader.read()
        seen = len(self.reader.events)
        self.publisher.publish()
        arrive(self._world, self.reader, seen + 1)
        self.reader.check(truths(self._world))
        self._world.check_outcomes()


@pytest.mark.slow
def test_of_a_hundred_thousand_queries_all_beyond_the_usual_limit_are_refused() -> None:
    limit = Settings().limits.max_subscriptions_per_client
    with World(1, settings=settings()) as world:
        others = Others(world)
        greedy = Greedy(world)
        world.run(1.0)
        others.go_on_beside(greedy, 100_000)
        assert len(greedy.kept) == limit
        assert {type(error) for error in greedy.refused} == {TooManySubscriptions}
        assert {str(error) for error in greedy.refused} == {
            f"{limit} subscriptions are all that a client may have"
        }
        assert held(world)["distinct_queries"] == others.held["distinct_queries"] + limit
        others.publisher.publish("greedy.x", altitude=4)
        world.run(1.0)
        assert sum(len(each.take_ready()) for each in greedy.kept) == 1
        world.wait(greedy.client.close())
        world.run(1.0)
        others.are_alone_again()


@pytest.mark.slow
def test_a_limit_that_was_raised_is_used_up_beside_others() -> None:
    with World(1, settings=settings(5_000)) as world:
        others = Others(world)
        greedy = Greedy(world)
        world.run(1.0)
        others.go_on_beside(greedy, 5_000)
        assert greedy.refused == []
        assert held(world)["templates"] <= others.held["templates"] + 4
        world.kill_client(greedy.client)
        world.run(LEASE + 1.0)
        others.are_alone_again()


@pytest.mark.parametrize("how", ["unsubscribes", "closes", "is killed"])
def test_what_a_greedy_client_held_comes_back(small: World, how: str) -> None:
    others = Others(small)
    greedy = Greedy(small)
    greedy.ask(0, 50)
    small.run_until(lambda: greedy.answered == 50)
    assert (len(greedy.kept), len(greedy.refused)) == (20, 30)
    full = held(small)
    assert full["subscriptions"] == others.held["subscriptions"] + 20
    if how == "unsubscribes":
        for each in greedy.kept:
            each.unsubscribe()
        small.run(1.0)
    elif how == "closes":
        small.wait(greedy.client.close())
        small.run(1.0)
    else:
        small.kill_client(greedy.client)
        small.run(LEASE - 1.0)
        # It might have come back.
        assert held(small) == full
        small.run(2.0)
    others.are_alone_again()


def test_who_gives_up_some_may_have_others(small: World) -> None:
    greedy = Greedy(small)
    greedy.ask(0, 25)
    small.run_until(lambda: greedy.answered == 25)
    for each in greedy.kept[:5]:
        each.unsubscribe()
    greedy.ask(25, 31)
    small.run_until(lambda: greedy.answered == 31)
    assert (len(greedy.kept), len(greedy.refused)) == (25, 6)
    assert held(small)["subscriptions"] == 20
    other = Greedy(small, "other")
    other.ask(0, 20)
    small.run_until(lambda: other.answered == 20)
    assert other.refused == []
    # The same queries once more are no more queries: the two clients share what is alike.
    assert held(small)["distinct_queries"] < 40
