from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from broker.archiver.messages import CODEC, DeadOrigins, End, Flush, Message
from broker.child import supervisor
from broker.child.connection import MAX_MESSAGE_BYTES
from broker.child.supervisor import STOP_TIMEOUT, ChildSupervisor
from broker.transport.backoff import SUCCESS_AFTER, Backoff
from tests.child.simulated_child import Reactor

FIRST_WAIT, MAX_WAIT = 1.0, 60.0


class Child:
    def __init__(self, folder: Path | None = None, *, restarts: bool = True) -> None:
        self.reactor = Reactor(CODEC)
        self.messages: list[Message] = []
        self.ends: list[tuple[str, bool]] = []
        self.output: list[str] = []
        self.calls: list[str] = []
        self.starts = 0
        self.supervisor = ChildSupervisor[Message](
            self.reactor,
            ["broker.something", "--option"],
            CODEC,
            on_message=self.receive,
            on_ended=self.end,
            on_output=self.output.append,
            on_started=self.count_start,
            backoff=Backoff(FIRST_WAIT, MAX_WAIT, jitter=False) if restarts else None,
            folder=folder,
        )
        self.supervisor.start()

    def receive(self, message: Message) -> None:
        self.calls.append("message")
        self.messages.append(message)

    def end(self, reason: str, was_stopped: bool) -> None:
        self.calls.append("end")
        self.ends.append((reason, was_stopped))

    def count_start(self) -> None:
        self.starts += 1


def results(deferred: Deferred[Any]) -> list[Any]:
    found: list[Any] = []
    deferred.addCallback(found.append)
    return found


@pytest.fixture
def child() -> Child:
    return Child()


# ---------------------------------------------------------------- start and restart


def test_messages_go_both_ways(child: Child) -> None:
    process = child.reactor.newest
    assert process.arguments[1:] == ["-m", "broker.something", "--option"]
    child.supervisor.send(Flush())
    assert process.received() == [Flush()]
    process.send(DeadOrigins(("a",)), Flush())
    assert child.messages == [DeadOrigins(("a",)), Flush()]


def test_a_dead_process_is_restarted_with_backoff(child: Child) -> None:
    reactor = child.reactor
    rest = FIRST_WAIT
    for count in range(1, 10):
        reactor.newest.end()
        assert not child.supervisor.is_running
        reactor.advance(rest - 0.01)
        assert len(reactor.processes) == count
        reactor.advance(0.02)
        assert len(reactor.processes) == count + 1
        rest = min(2 * rest, MAX_WAIT)
    assert rest == MAX_WAIT
    assert (child.starts, len(child.ends)) == (10, 9)
    # A process that soon ends again must not reset the backoff.
    child.supervisor.report_success()
    reactor.newest.end()
    reactor.advance(FIRST_WAIT)
    assert len(reactor.processes) == 10
    reactor.advance(MAX_WAIT)
    child.supervisor.report_success()
    reactor.advance(SUCCESS_AFTER)
    reactor.newest.end()
    reactor.advance(FIRST_WAIT)
    assert len(reactor.processes) == 12


def test_without_backoff_only_start_starts_a_process_again() -> None:
    child = Child(restarts=False)
    child.reactor.newest.end()
    assert child.reactor.getDelayedCalls() == []
    child.supervisor.send(Flush())
    child.supervisor.start()
    assert child.supervisor.is_running
    assert child.reactor.newest.received() == []


def test_a_failed_start_is_retried(child: Child) -> None:
    child.reactor.error = OSError("no room for one more process")
    child.reactor.newest.end()
    child.reactor.advance(FIRST_WAIT)
    assert child.ends[1:] == [("no room for one more process", False)]
    assert (child.starts, child.supervisor.is_running) == (1, False)
    child.reactor.error = None
    child.reactor.advance(2 * FIRST_WAIT)
    assert len(child.reactor.processes) == 2


def test_a_folder_that_cannot_be_made_is_a_failed_start(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.write_bytes(b"")
    child = Child(folder, restarts=False)
    assert not child.supervisor.is_running
    assert "exists" in child.ends[0][0]
    folder.unlink()
    child.supervisor.start()
    assert child.supervisor.is_running and folder.is_dir()


def test_the_last_message_is_received_before_the_end(child: Child) -> None:
    child.reactor.newest.end(Flush())
    assert child.calls == ["message", "end"]


# ---------------------------------------------------------------- stop


def test_stop_waits_for_the_end_after_the_last_message(child: Child) -> None:
    stopped = results(child.supervisor.stop(End()))
    assert child.reactor.newest.received() == [End()]
    assert not child.reactor.newest.connection.disconnecting
    # The process closes the connection when it exits.
    child.reactor.newest.close()
    assert (stopped, child.reactor.newest.signals) == ([], [])
    child.reactor.newest.end()
    assert stopped == [None]
    assert [was_stopped for _, was_stopped in child.ends] == [True]
    assert child.reactor.getDelayedCalls() == []
    assert len(child.reactor.processes) == 1


def test_stop_without_a_message_closes_the_connection(child: Child) -> None:
    first = results(child.supervisor.stop())
    assert child.reactor.newest.connection.disconnecting
    second = results(child.supervisor.stop())
    child.reactor.newest.end()
    assert first == second == [None]
    assert results(child.supervisor.stop()) == [None]


def test_stop_kills_a_slow_process(child: Child) -> None:
    stopped = results(child.supervisor.stop(End()))
    child.reactor.advance(STOP_TIMEOUT - 0.1)
    assert child.reactor.newest.signals == []
    child.reactor.advance(0.2)
    assert child.reactor.newest.signals == ["KILL"]
    child.reactor.newest.end()
    assert stopped == [None]
    assert child.reactor.getDelayedCalls() == []


def test_stop_cancels_a_restart(child: Child) -> None:
    child.reactor.newest.end()
    child.reactor.advance(FIRST_WAIT / 2)
    assert results(child.supervisor.stop(End())) == [None]
    assert child.reactor.getDelayedCalls() == []
    child.reactor.advance(10 * FIRST_WAIT)
    assert len(child.reactor.processes) == 1


def test_an_ended_process_can_be_killed(child: Child) -> None:
    stopped = results(child.supervisor.stop(End()))
    child.reactor.newest.is_over = True
    child.reactor.advance(STOP_TIMEOUT + 1)
    child.reactor.newest.end()
    assert stopped == [None]


# ---------------------------------------------------------------- output


@pytest.mark.parametrize(
    "rubbish",
    [struct.pack(">I", MAX_MESSAGE_BYTES + 1), struct.pack(">I", 2) + b"\xc1\x90"],
    ids=["endless", "unknown"],
)
def test_invalid_bytes_kill_the_process(child: Child, rubbish: bytes) -> None:
    child.reactor.newest.send_bytes(rubbish)
    assert child.reactor.newest.signals == ["KILL"]
    assert len(child.output) == 1
    child.reactor.newest.end()
    child.reactor.advance(FIRST_WAIT)
    assert len(child.reactor.processes) == 2


def test_a_closed_connection_kills_only_its_process(child: Child) -> None:
    first = child.reactor.newest
    first.close()
    assert first.signals == ["KILL"]
    first.end()
    child.reactor.advance(FIRST_WAIT)
    first.close()
    assert child.reactor.newest.signals == []


def test_an_endless_line_of_output_is_bounded(child: Child) -> None:
    for _ in range(40):
        child.reactor.newest.write_output(b"y" * 65_536)
    child.reactor.newest.write_output(b"\nwhy\xff\n")
    assert [len(each) for each in child.output] == [supervisor.MAX_LINE_BYTES - 6, 4]
    assert child.output[1] == "why\ufffd"
