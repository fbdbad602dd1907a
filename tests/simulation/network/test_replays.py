"""A replay gives what lies between its ends, and ends: from logs, and of nodes that are gone."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from broker.errors import BadPosition
from broker.event.place import Position
from broker.testing.simulated_network import NetworkWorld
from tests.simulation.network.watching import Publisher

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
        origin = world["a"].event_log.origin

        def at(offset: int) -> Position:
            return Position({origin: (1, offset)})

        def numbers(first: int, last: int) -> list[tuple[str, int]]:
            return [("p-a", n) for n in range(first, last + 1)]

        assert replayed(world, "a") == numbers(1, EVENTS)
        assert replayed(world, "a", since=at(5)) == numbers(6, EVENTS)
        assert replayed(world, "a", since=at(5), until=at(9)) == numbers(6, 9)
        assert replayed(world, "a", until=at(9)) == numbers(1, 9)
        assert replayed(world, "a", since=at(EVENTS)) == []
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
        gone = world["a"].event_log.origin
        world.kill("a")
        world.add("b", "two")
        world.run(1.0)
        publish(world, "b")
        here = world["b"].event_log.origin
        since = Position({here: (1, 15)})
        until = Position({here: (1, 18), gone: (1, 3)})
        said = {"since": {"since": since}, "until": {"until": until}}
        said["both"] = {**said["since"], **said["until"]}
        got = replayed(world, "b", **said[ends])
        first, last = (1 if ends == "until" else 16), (EVENTS if ends == "since" else 18)
        expected = [("p-b", n) for n in range(first, last + 1)]
        expected += [("p-a", n) for n in range(1, (EVENTS if ends == "since" else 3) + 1)]
        assert sorted(got) == sorted(expected)
