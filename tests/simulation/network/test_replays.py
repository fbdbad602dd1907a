from __future__ import annotations

import itertools
from typing import Any

import attrs
import pytest
from twisted.internet.defer import Deferred

from broker.config import Settings
from broker.errors import BadPosition, BadQuery, BrokerError, NotAllowed, UnknownSubscription
from broker.event.place import Position
from broker.node.status import build_recovery_status
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read
from tests.simulation.network.test_gaps import overflow_log, short_log
from tests.simulation.test_identities import ACCOUNTS

EVENTS = 20
_numbers = itertools.count()


def replayed(world: NetworkWorld, node: str, **ends: Any) -> list[tuple[str, int]]:
    """Publisher and number of each event."""
    client = world.client(f"reader-{next(_numbers)}", node)
    subscription = client.replay(**ends)

    async def read_all() -> list[tuple[str, int]]:
        return [
            (event.event_id.client_id, event.event_id.sequence_number)
            async for event in subscription
        ]

    got: list[tuple[str, int]] = world.wait(Deferred.fromCoroutine(read_all()))
    return got


def publish(world: NetworkWorld, *nodes: str) -> None:
    for name in nodes:
        publisher = Publisher(world.client(f"p-{name}", name))
        for _ in range(EVENTS):
            publisher.publish("asdi.zbw.tz")
        world.run_until(lambda: not publisher.client.unacknowledged)  # noqa: B023
    world.run(5.0)


@pytest.mark.parametrize("archived", [False, True])
def test_replay_returns_the_events_between_two_positions(archived: bool) -> None:
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
        # A place of a lost branch is after the branch's start: offset 0.
        for offset in (5, EVENTS, EVENTS + 5):
            lost = Position({origin: (log.bounds.epoch - 1, offset)})
            assert replayed(world, "a", since=lost) == numbers(1, EVENTS)
        for future in ({"since": at(EVENTS + 1)}, {"until": at(EVENTS + 1)}):
            with pytest.raises(BadPosition, match="lies in the future"):
                replayed(world, "a", **future)


@pytest.mark.parametrize("ends", ["since", "until", "both"])
def test_replay_returns_archived_events_of_a_dead_node(ends: str) -> None:
    with NetworkWorld(2, archived=True) as world:
        world.add("a", "one")
        world.run(1.0)
        publish(world, "a")
        lost_origin, then = world["a"].event_log.origin, world["a"].event_log.bounds.epoch
        world.kill("a")
        world.add("b", "two")
        world.run(1.0)
        publish(world, "b")
        here, now = world["b"].event_log.origin, world["b"].event_log.bounds.epoch
        since = Position({here: (now, 15)})
        until = Position({here: (now, 18), lost_origin: (then, 3)})
        arguments = {"since": {"since": since}, "until": {"until": until}}
        arguments["both"] = {**arguments["since"], **arguments["until"]}
        got = replayed(world, "b", **arguments[ends])
        first, last = (1 if ends == "until" else 16), (EVENTS if ends == "since" else 18)
        expected = [("p-b", n) for n in range(first, last + 1)]
        expected += [("p-a", n) for n in range(1, (EVENTS if ends == "since" else 3) + 1)]
        assert sorted(got) == sorted(expected)


def explain(world: NetworkWorld, client: Any, **arguments: str) -> Any:
    return world.wait(client.ask("recover-explain", **arguments))


def sources(origin: Any) -> list[tuple[str, int, int]]:
    return [(p["source"], p["after"][1], p["upto"][1]) for p in origin["parts"]]


def test_explaining_a_recovery_needs_the_right_to_its_streams() -> None:
    with NetworkWorld(3, settings=attrs.evolve(Settings(), accounts=ACCOUNTS)) as world:
        world.add("a", "one")
        low = world.client("low-1", "a", account="low", secret="right")
        world.run(1.0)
        assert explain(world, low, streams="public")["streams"] == "public"
        with pytest.raises(NotAllowed):
            explain(world, low, streams="secret")


def test_explained_recovery_equals_the_actual_one() -> None:
    with NetworkWorld(3, archived=True) as world:
        world.add("a", "one", settings=short_log())
        world.run(1.0)
        publisher = Publisher(world.client("publisher", "a"))
        process = world.client("away", "a")
        absent_reader = Reader(world, process, durable="d")
        world.run_until(lambda: absent_reader.is_flowing)
        publisher.publish()
        read(world, absent_reader)
        world.kill_client(process)
        for _ in range(6):
            overflow_log(world, publisher, 10)
            world.run(3.0)
        log = world["a"].event_log
        first, last = log.bounds.first, log.bounds.last
        returning_client = world.client("away", "a", incarnation=2)
        explained = explain(world, returning_client, durable="d")
        assert (explained["durable"], explained["position"]) == (
            "d",
            f"{log.origin}:{log.bounds.epoch}:1",
        )
        (origin,) = explained["origins"]
        assert sources(origin) == [("archive", 1, first - 1), ("log", first - 1, last)]
        assert not origin["gaps"]
        assert world.archive is not None
        world.archive.is_broken = True
        (origin,) = explain(world, returning_client, durable="d")["origins"]
        (gap,) = origin["gaps"]
        assert (gap["after"], gap["upto"]) == (
            [log.bounds.epoch, 1],
            [log.bounds.epoch, first - 1],
        )
        assert "the archive's coverage is unknown" in gap["why"]
        world.archive.is_broken = False
        assert build_recovery_status(world["a"])["recoveries"]["begun"] == 0
        reader = Reader(world, returning_client, durable="d")
        publisher.publish()
        read(world, reader, seconds=30.0)
        found = build_recovery_status(world["a"])["recoveries"]
        assert (found["begun"], found["under_way"], found["lost_places"]) == (1, 0, 0)
        assert found["events"] == {"log": 0, "former": 0, "logs": 0, "archive": first - 2}


def test_replay_is_explained_by_its_ends() -> None:
    with NetworkWorld(4) as world:
        world.add("a", "one")
        world.run(1.0)
        publish(world, "a")
        log = world["a"].event_log
        origin = f"{log.origin}:{log.bounds.epoch}"
        client = world.client("me", "a")
        explained = explain(world, client, since=f"{origin}:5", until=f"{origin}:9")
        assert sources(explained["origins"][0]) == [("log", 5, 9)]
        assert explained["archive"] == {"available": False, "told": False}
        lost = f"{log.origin}:{log.bounds.epoch - 1}:{EVENTS + 5}"
        explained = explain(world, client, since=lost)
        assert sources(explained["origins"][0]) == [("log", 0, EVENTS)]
        for error, arguments in (
            (BadPosition, {"since": f"{origin}:999"}),
            (BadPosition, {"until": f"{origin}:999"}),
            (BadPosition, {"since": "nonsense"}),
            (BadQuery, {"query": "/flight["}),
            (BadQuery, {"namespaces": "[]"}),
            (UnknownSubscription, {"durable": "nobody's"}),
        ):
            with pytest.raises(error) as raised:
                explain(world, client, **arguments)
            assert isinstance(raised.value, BrokerError)
            if "query" in arguments:
                assert raised.value.column == 9
        Reader(world, world.client("other", "a"), durable="d")
        world.run(1.0)
        with pytest.raises(UnknownSubscription):
            explain(world, client, durable="d")


@pytest.mark.parametrize("others", [False, True], ids=["own", "others"])
def test_client_lists_only_its_own_running_recoveries(others: bool) -> None:
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
        (explained,) = world.wait(client.ask("recoveries"))
        sources = ["archive", "logs"] if others else ["logs", "archive"]
        assert (explained["stage"], explained["sources"]) == (sources[0], sources)
        rows = 2 * EVENTS if others else 0
        assert (explained["looked_at"], explained["of"]) == (rows, rows)
        # A log returns a page at once.
        found_by_now = range(1, EVENTS) if others else [EVENTS]
        assert explained["durable"] == "" and explained["events"] in found_by_now
        other = world.client("other", "a")
        assert world.wait(other.ask("recoveries")) == []
        replay.unsubscribe()
        world.run(1.0)
        assert world.wait(client.ask("recoveries")) == []
        found = build_recovery_status(world["a"])["recoveries"]
        assert (found["cancelled"], found["under_way"], found["lost_places"]) == (1, 0, 0)
