"""Incarnations far ahead of the clock: refused, and reset by an administrator."""

from __future__ import annotations

import struct

import attrs
import pytest
from twisted.internet.defer import Deferred, fail

from broker.config.settings import Settings
from broker.errors import (
    Closed,
    IncarnationAhead,
    IncarnationRefused,
    LogUnavailable,
    SessionSuperseded,
    from_wire,
)
from broker.log.event_log import EventLog
from broker.sessions.incarnations import MAX_AHEAD
from broker.testing.simulation import World
from broker.wire import messages
from broker.wire.messages import Refuse, Subscribe
from tests.simulation.raw_client import RawConnection, RawSession, hello

HIGHEST = 2**63 - 1


def reset_of(client: str, incarnation: int) -> dict[str, object]:
    """Answer without a session and an owner."""
    ended = {"session_ended": False, "owner_deleted": False}
    return {"client": client, "incarnation": incarnation, **ended}


def refusal_of(
    world: World, incarnation: int, token: bytes = b"o" * 16, client: str = "victim"
) -> object:
    """Log in, and return the error, or None."""
    connection = RawConnection(world, client)
    connection.channel.send([messages.encode(hello(client, incarnation, token))])
    world.run_until(lambda: bool(connection.packets))
    answer = messages.decode(connection.packets[0])
    return from_wire(answer.error) if isinstance(answer, Refuse) else None


def test_an_incarnation_is_near_the_clock_or_the_next_one() -> None:
    with World(1) as world:
        now = world.wall_clock() * 1000
        RawSession(world, "victim", incarnation=7)
        for number in (HIGHEST, now + 2 * MAX_AHEAD):
            assert isinstance(refusal_of(world, number), IncarnationAhead)
        assert refusal_of(world, 8) is None
        ahead = now + MAX_AHEAD
        assert refusal_of(world, ahead) is None
        for number in range(1, 4):
            # A client with a wrong clock and a state file goes on.
            assert refusal_of(world, ahead + 60_000_000 * number - 1) is not None
            assert refusal_of(world, ahead + number) is None
        assert isinstance(refusal_of(world, ahead), IncarnationRefused)
        refused = dict(world.node.acceptor.refused_connections)
        assert refused == {"incarnation-ahead": 5, "incarnation-refused": 1}


def claim_for_ever(world: World) -> None:
    """Store what an earlier version accepted."""
    world.node.event_log.put_client("victim", struct.pack(">Q16s", HIGHEST, b"thief's token..."))
    world.run(1.0)


def test_a_client_that_was_claimed_for_ever_is_reported_and_reset() -> None:
    with World(1) as world:
        claim_for_ever(world)
        RawSession(world, "other", incarnation=world.wall_clock() * 1000)
        world.kill_node()
        world.start_node()
        assert isinstance(refusal_of(world, world.wall_clock() * 1000), IncarnationRefused)
        admin = world.client("admin")
        world.run(1.0)
        status = world.wait(admin.ask("status"))
        assert status["incarnations_ahead"] == {"count": 1, "clients": ["victim"]}
        answer = world.wait(admin.ask("client-reset", client="victim"))
        assert answer == reset_of("victim", HIGHEST)
        world.kill_node()
        world.start_node()
        victim = RawSession(world, "victim", incarnation=3)
        assert victim.is_connected
        world.run(30.0)
        status = world.wait(admin.ask("status"))
        assert status["incarnations_ahead"] == {"count": 0, "clients": []}


def test_a_reset_ends_the_present_session() -> None:
    with World(1) as world:
        thief = world.client("victim", incarnation=world.wall_clock() * 1000)
        admin = world.client("admin")
        world.run(1.0)
        assert thief.connected
        answer = world.wait(admin.ask("client-reset", client="victim"))
        assert answer["session_ended"]
        world.run(1.0)
        assert not thief.connected
        with pytest.raises(SessionSuperseded):
            world.wait(thief.ask("status"))
        assert refusal_of(world, 1) is None
        answer = world.wait(admin.ask("client-reset", client="nobody"))
        assert answer == reset_of("nobody", 0)


@pytest.mark.parametrize("stored", [0, 5])
def test_another_node_can_not_claim_a_client_for_ever(stored: int) -> None:
    with World(1) as world:
        if stored:
            RawSession(world, "victim", incarnation=stored)
        acceptor = world.node.acceptor
        with pytest.raises(IncarnationAhead):
            acceptor.supersede_client("victim", HIGHEST, b"m" * 16)
        assert not acceptor.ended_sessions
        assert refusal_of(world, stored + 1) is None


@pytest.mark.parametrize("restarted", [False, True])
def test_clients_beyond_the_bound_are_forgotten_unless_they_are_in_use(restarted: bool) -> None:
    limits = attrs.evolve(Settings().limits, max_clients=3, session_lease=1.0)
    with World(1, settings=attrs.evolve(Settings(), limits=limits)) as world:
        connected = RawSession(world, "connected", incarnation=50)
        durable = RawSession(world, "durable", incarnation=50)
        durable.send(Subscribe(1, ">", "true()", {}, "d", "new", (), 0))
        world.run(1.0)
        durable.channel.abort(Closed("it has left"))
        for name in ("one", "two", "three"):
            RawSession(world, name, incarnation=50).channel.abort(Closed("it has left"))
            world.run(5.0)
        if restarted:
            world.kill_node()
            world.start_node()
            world.run(1.0)
        assert connected.is_connected is not restarted
        found = {
            name: refusal_of(world, 40, client=name)
            for name in ("connected", "durable", "three", "one", "two")
        }
        refused = [name for name, error in found.items() if error is not None]
        assert refused == ["connected", "durable", "three"]
        assert {type(found[name]) for name in refused} == {IncarnationRefused}


def test_clients_in_memory_are_bounded_when_the_log_can_not_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(log: EventLog) -> Deferred[object]:
        return fail(LogUnavailable("the disk has an error"))

    monkeypatch.setattr(EventLog, "newest_incarnations", refuse)
    limits = attrs.evolve(Settings().limits, max_clients=2)
    with World(1, settings=attrs.evolve(Settings(), limits=limits)) as world:
        for name in ("one", "two", "three"):
            RawSession(world, name, incarnation=50)
        (limit,) = (
            each
            for each in world.node.limit_registry.snapshot()
            if each["name"] == "client-incarnations"
        )
        assert limit["used"] == 2
        # The log has the others.
        assert isinstance(refusal_of(world, 40, client="one"), IncarnationRefused)
