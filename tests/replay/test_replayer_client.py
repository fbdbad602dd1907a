from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from broker.errors import EngineUnavailable, NotConnected, Overloaded
from broker.replay.engine.contract import Report
from broker.replay.replayer_client import SPOOL_SHARE, ReplayerClient, ReplayerSettings
from broker.replay.replayer_messages import CODEC, Accepted, Cancel, Done, Found
from broker.replay.request import ReplayRequest
from tests.child.simulated_child import Reactor

REQUEST = ReplayRequest(">", "true()")
IDLE = 60.0
SPOOL_BYTES = 1 << 30


def replays(reactor: Reactor, folder: Path) -> ReplayerClient:
    return ReplayerClient(
        reactor,
        ReplayerSettings("archive", folder, "local", "local[1]", SPOOL_BYTES, 1 << 30, IDLE),
    )


def error_of(events: Deferred[Any]) -> BaseException | None:
    failures: list[Failure] = []
    events.addErrback(failures.append)
    return failures[0].value


@pytest.mark.parametrize("has_answered", [False, True])
def test_a_process_that_ends_before_it_answers_means_no_engine(
    tmp_path: Path, has_answered: bool
) -> None:
    reactor = Reactor(CODEC)
    client = replays(reactor, tmp_path)
    events = client.start_replay(REQUEST).next_events()
    if has_answered:
        reactor.newest.send(Accepted(1))
    reactor.newest.end()
    assert isinstance(error_of(events), NotConnected if has_answered else EngineUnavailable)
    assert not client.replays
    client.start_replay(REQUEST)
    assert len(reactor.processes) == 2


def test_a_failed_process_start_fails_only_its_replay(tmp_path: Path) -> None:
    reactor = Reactor(CODEC)
    reactor.error = OSError(11, "Resource temporarily unavailable")
    client = replays(reactor, tmp_path)
    replay = client.start_replay(REQUEST)
    assert isinstance(error_of(replay.next_events()), EngineUnavailable)
    assert not client.replays and not client.is_running
    reactor.error = None
    client.start_replay(REQUEST)
    assert client.is_running and client.started_processes == len(reactor.processes) == 1


def test_an_idle_process_is_stopped(tmp_path: Path) -> None:
    reactor = Reactor(CODEC)
    client = replays(reactor, tmp_path)
    client.start_replay(REQUEST)
    cancelled = client.start_replay(REQUEST)
    reactor.newest.send(Accepted(1), Accepted(2), Done(1))
    reactor.newest.received()
    reactor.advance(2 * IDLE)
    assert not reactor.newest.connection.disconnecting
    cancelled.cancel()
    assert reactor.newest.received() == [Cancel(2)]
    assert not client.replays
    reactor.advance(IDLE)
    assert reactor.newest.connection.disconnecting
    reactor.newest.end()
    assert reactor.getDelayedCalls() == []


def test_an_account_has_a_share_of_the_spool(tmp_path: Path) -> None:
    reactor = Reactor(CODEC)
    client = replays(reactor, tmp_path)
    request = attrs.evolve(REQUEST, holder="account bad")
    large, second, of_other = (
        client.start_replay(each)
        for each in (request, request, attrs.evolve(REQUEST, holder="account good"))
    )
    reactor.newest.received()
    size = SPOOL_BYTES // SPOOL_SHARE + 1
    for replay in (large, second, of_other):
        reactor.newest.send(Found(replay.number, Report(bytes=size).to_wire()))
    assert isinstance(error_of(second.next_events()), Overloaded)
    assert reactor.newest.received() == [Cancel(second.number)]
    assert client.replays.keys() == {large.number, of_other.number}
    large.cancel()
    reactor.newest.received()
    again = client.start_replay(request)
    reactor.newest.received()
    reactor.newest.send(Found(again.number, Report(bytes=size).to_wire()))
    assert client.replays.keys() == {of_other.number, again.number}
