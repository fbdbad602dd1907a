"""The node's side of a replay process that does not start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessTerminated
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from broker.errors import EngineUnavailable
from broker.replay.replayer_client import ReplayerClient, ReplayerSettings
from broker.replay.request import ReplayRequest


class Reactor(Clock):
    """Spawns processes that do nothing, or fails."""

    def __init__(self) -> None:
        super().__init__()
        self.error: OSError | None = None
        self.started: list[Any] = []

    def spawnProcess(self, protocol: Any, *_: object, **__: object) -> None:
        if self.error is not None:
            raise self.error
        self.started.append(protocol)


def replays(reactor: Reactor, folder: Path) -> ReplayerClient:
    return ReplayerClient(
        reactor, ReplayerSettings("archive", folder, "local", "local[1]", 1 << 30, 1 << 30, 60.0)
    )


def error_of(events: Deferred[Any]) -> Exception:
    failures: list[Failure] = []
    events.addErrback(failures.append)
    return failures[0].value


def test_a_process_that_ends_before_it_is_ready_means_no_engine(
    tmp_path: Path,
) -> None:
    reactor = Reactor()
    process = replays(reactor, tmp_path)
    replay = process.start_replay(ReplayRequest(">", "true()"))
    events = replay.next_events()
    reactor.started[0].processEnded(Failure(ProcessTerminated(1)))
    assert isinstance(error_of(events), EngineUnavailable)
    assert not process.replays
    process.start_replay(ReplayRequest(">", "true()"))
    assert len(reactor.started) == 2


@pytest.mark.parametrize("why", ["folder", "fork"])
def test_a_failed_process_start_fails_only_its_replay(tmp_path: Path, why: str) -> None:
    reactor = Reactor()
    folder = tmp_path / "replays"
    if why == "folder":
        folder.write_bytes(b"")
    else:
        reactor.error = OSError(11, "Resource temporarily unavailable")
    process = replays(reactor, folder)
    replay = process.start_replay(ReplayRequest(">", "true()"))
    assert isinstance(error_of(replay.next_events()), EngineUnavailable)
    assert not process.replays and not process.is_running
    if why == "folder":
        folder.unlink()
    reactor.error = None
    process.start_replay(ReplayRequest(">", "true()"))
    assert process.is_running and len(reactor.started) == 1
