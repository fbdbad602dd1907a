"""A replay gives what lies between its ends, and ends: from logs, and of nodes that are gone."""

from __future__ import annotations

import itertools
from typing import Any

import attrs
import pytest
from twisted.internet.defer import Deferred

from broker.config import Settings
from broker.errors import BadPosition, BadQuery, BrokerError, NotAllowed, UnknownSubscription
from broker.event.place import Position
from broker.node.status import recovery
from broker.testing.simulated_network import NetworkWorld
from tests.simulation.network.test_gaps import fill, short_log
from tests.simulation.network.watching import Publisher, Reader, read
from tests.simulation.test_identities import ACCOUNTS

EVENTS = 20
_numbers = itertools.count()


def replayed(world: NetworkWorld, node: str, **ends: Any) -> list[tuple[str, int]]:
    """Who published which: all that a replay gives, until it ends."""
    client = world.client(f"reader-{next(_numbers)}", node)
    subscription = client.replay(**ends)

    async def everything() -> list[tuple[str, int]]:
        return [
            (event.event_id.client_id, event.event_id.sequence_number)
            async for event in subscription
        ]

    got: list[tuple[str, int]] = world.wait(Deferred.fromCoroutine(everything()))
    return got


def publish(world: NetworkWorld, *nodes: str) -> None:
    for name in nodes:
        publisher = Publisher(world, world.client(f"p-{name}", name))
        for _ in range(EVENTS):
            publisher.publish("asdi.zbw.tz")
        world.run_until(lambda: not publisher.client.unacknowledged)  # noqa: B023
    world.run(5.0)


@pytest.mark.parametrize("archived", [False, True])
def test_it_gives_what_lies_between_two_positions(archived: bool) -> None:
    with NetworkWorld(1, archived=archived) as world:
        world.add("a", "one")
        world.run(1.0)
        publish(world, "a")
        log = world["a"].event_log
        origin = log.origin

        def at(offset: int) -> Position:
            return Position({origin: (log.bounds.epoch, offset)})

        def numbers(first: int, last: int) -> list[tuple[str, int]]:
            return [("p-a", n) for n in range(first, last + 1)]

        assert replayed(world, "a") == numbers(1, EVENTS)
        assert replayed(world, "a", since=at(5)) == numbers(6, EVENTS)
        assert replayed(world, "a", since=at(5), until=at(9)) == numbers(6, 9)
        assert replayed(world, "a", until=at(9)) == numbers(1, 9)
        assert replayed(world, "a", since=at(EVENTS)) == []
        # A place of a branch that was lost lies behind the place where that began: 0.
        for offset in (5, EVENTS, EVENTS + 5):
            lost = Position({origin: (log.bounds.epoch - 1, offset)})
            assert replayed(world, "a", since=lost) == numbers(1, EVENTS)
        for future in ({"since": at(EVENTS + 1)}, {"until": at(EVENTS + 1)}):
            with pytest.raises(BadPosition, match="lies in the future"):
                replayed(world, "a", **future)


@pytest.mark.parametrize("ends", ["since", "until", "both"])
def test_it_gives_what_is_known_of_a_node_that_is_gone(ends: str) -> None:
    """Nobody that runs has heard of it: the archive has its events."""
    with NetworkWorld(2, archived=True) as world:
        world.add("a", "one")
        world.run(1.0)
        publish(world, "a")
        gone, then = world["a"].event_log.origin, world["a"].event_log.bounds.epoch
        world.kill("a")
        world.add("b", "two")
        world.run(1.0)
        publish(world, "b")
        here, now = world["b"].event_log.origin, world["b"].event_log.bounds.epoch
        since = Position({here: (now, 15)})
        until = Position({here: (now, 18), gone: (then, 3)})
        said = {"since": {"since": since}, "until": {"until": until}}
        said["both"] = {**said["since"], **said["until"]}
        got = replayed(world, "b", **said[ends])
        first, last = (1 if ends == "until" else 16), (EVENTS if ends == "since" else 18)
        expected = [("p-b", n) for n in range(first, last + 1)]
        expected += [("p-a", n) for n in range(1, (EVENTS if ends == "since" else 3) + 1)]
        assert sorted(got) == sorted(expected)


def asked(world: NetworkWorld, client: Any, **said: str) -> Any:
    return world.wait(client.ask("recover-explain", **said))


def sources(origin: Any) -> list[tuple[str, int, int]]:
    return [(p["source"], p["after"][1], p["upto"][1]) for p in origin["parts"]]


def test_an_account_is_told_nothing_of_streams_that_it_may_not_read() -> None:
    with NetworkWorld(3, settings=attrs.evolve(Settings(), accounts=ACCOUNTS)) as world:
        world.add("a", "one")
        low = world.client("low-1", "a", account="low", secret="right")
        world.run(1.0)
        assert asked(world, low, streams="public")["streams"] == "public"
        with pytest.raises(NotAllowed):
            asked(world, low, streams="secret")


def test_what_is_explained_is_what_is_done() -> None:
    """Retention took what a client missed; the archive has it, and the log the rest."""
    with NetworkWorld(3, archived=True) as world:
        world.add("a", "one", settings=short_log())
        world.run(1.0)
        publisher = Publisher(world, world.client("publisher", "a"))
        process = world.client("away", "a")
        away = Reader(world, process, durable="d")
        world.run_until(lambda: away.flowing)
        publisher.publish()
        read(world, away)
        world.kill_client(process)
        for _ in range(6):
            fill(world, publisher, 10)
            world.run(3.0)
        log = world["a"].event_log
        first, last = log.bounds.first, log.bounds.last
        back = world.client("away", "a", incarnation=2)
        told = asked(world, back, durable="d")
        assert (told["durable"], told["position"]) == ("d", f"{log.origin}:{log.bounds.epoch}:1")
        (origin,) = told["origins"]
        assert sources(origin) == [("archive", 1, first - 1), ("log", first - 1, last)]
        assert not origin["gaps"]
        assert world.archive is not None
        world.archive.is_broken = True
        (origin,) = asked(world, back, durable="d")["origins"]
        (gap,) = origin["gaps"]
        assert (gap["after"], gap["upto"]) == (
            (log.bounds.epoch, 1),
            (log.bounds.epoch, first - 1),
        )
        assert "the archive can not tell" in gap["why"]
        world.archive.is_broken = False
        # Nothing was begun; then it is.
        assert recovery(world["a"])["recoveries"]["begun"] == 0
        reader = Reader(world, back, durable="d")
        publisher.publish()
        read(world, reader, seconds=30.0)
        found = recovery(world["a"])["recoveries"]
        assert (found["begun"], found["under_way"], found["lost_places"]) == (1, 0, 0)
        assert found["events"] == {"log": 0, "former": 0, "logs": 0, "archive": first - 2}


def test_a_replay_is_explained_by_its_ends() -> None:
    with NetworkWorld(4) as world:
        world.add("a", "one")
        world.run(1.0)
        publish(world, "a")
        log = world["a"].event_log
        origin = f"{log.origin}:{log.bounds.epoch}"
        client = world.client("me", "a")
        told = asked(world, client, since=f"{origin}:5", until=f"{origin}:9")
        assert sources(told["origins"][0]) == [("log", 5, 9)]
        assert told["archive"] == {"available": False, "told": False}
        lost = f"{log.origin}:{log.bounds.epoch - 1}:{EVENTS + 5}"
        told = asked(world, client, since=lost)
        assert sources(told["origins"][0]) == [("log", 0, EVENTS)]
        for error, said in (
            (BadPosition, {"since": f"{origin}:999"}),
            (BadPosition, {"until": f"{origin}:999"}),
            (BadPosition, {"since": "nonsense"}),
            (BadQuery, {"query": "/flight["}),
            (BadQuery, {"namespaces": "[]"}),
            (UnknownSubscription, {"durable": "nobody's"}),
        ):
            with pytest.raises(error) as raised:
                asked(world, client, **said)
            assert isinstance(raised.value, BrokerError)
            if "query" in said:
                assert raised.value.column == 9
        # Another client's durable subscription is none of this one's.
        Reader(world, world.client("other", "a"), durable="d")
        world.run(1.0)
        with pytest.raises(UnknownSubscription):
            asked(world, client, durable="d")


@pytest.mark.parametrize("others", [False, True], ids=["own", "others"])
def test_a_client_is_told_of_its_own_recoveries_while_they_go_on(others: bool) -> None:
    """The archive is searched first if it has origins that no log has."""
    with NetworkWorld(5, archived=True) as world:
        if others:
            world.add("gone", "one")
            world.run(1.0)
            publish(world, "gone")
            world.kill("gone")
        world.add("a", "one")
        world.run(1.0)
        publish(world, "a")
        client = world.client("me", "a")
        replay = client.replay(rate=2)
        world.run(3.0)
        (told,) = world.wait(client.ask("recoveries"))
        sources = ("archive", "logs") if others else ("logs", "archive")
        assert (told["stage"], told["sources"]) == (sources[0], sources)
        rows = 2 * EVENTS if others else 0
        assert (told["looked_at"], told["of"]) == (rows, rows)
        # A log gives a page at once.
        found_by_now = range(1, EVENTS) if others else [EVENTS]
        assert told["durable"] == "" and told["events"] in found_by_now
        other = world.client("other", "a")
        assert world.wait(other.ask("recoveries")) == ()
        replay.unsubscribe()
        world.run(1.0)
        assert world.wait(client.ask("recoveries")) == ()
        found = recovery(world["a"])["recoveries"]
        assert (found["cancelled"], found["under_way"], found["lost_places"]) == (1, 0, 0)
