"""The supervisor of the archiver with simulated processes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ProcessExitedAlready, ProcessTerminated
from twisted.internet.task import Clock
from twisted.logger import capturedLogs, formatEvent
from twisted.python.failure import Failure

from broker.archiver import protocol, supervisor
from broker.archiver.maintenance_rules import MaintenanceRules
from broker.archiver.supervisor import MIN_RESTART_DELAY, STOP_TIMEOUT, ArchiverSupervisor
from broker.dtd.reference import DtdReference
from broker.event.place import Mark
from broker.recovery.archive_access import ArchivedDurable, Coverage
from broker.transport.backoff import SUCCESS_AFTER

REFERENCE = DtdReference("flight", "1.0")


class Process:
    """A started process: its input and its end."""

    def __init__(self, protocol: Any, arguments: list[str]) -> None:
        self._protocol = protocol
        self.arguments = arguments
        self._told = b""
        self.signals: list[str] = []
        self.over = False
        protocol.makeConnection(self)

    def write(self, data: bytes) -> None:
        self._told += data

    def signalProcess(self, name: str) -> None:
        self.signals.append(name)
        if self.over:
            raise ProcessExitedAlready

    def told(self) -> list[protocol.NodeMessage]:
        """Return the messages since the last call."""
        told, self._told = self._told, b""
        return [protocol.decode_node_message(line) for line in told.splitlines()]

    def say(self, data: bytes) -> None:
        self._protocol.outReceived(data)

    def complain(self, data: bytes) -> None:
        self._protocol.errReceived(data)

    def end(self) -> None:
        self.over = True
        self._protocol.processEnded(Failure(ProcessTerminated(1)))


class Reactor(Clock):
    """A clock that starts processes."""

    def __init__(self) -> None:
        super().__init__()
        self.processes: list[Process] = []
        self.full = False

    def spawnProcess(self, protocol: Any, executable: str, args: list[str], **_: Any) -> Process:
        if self.full:
            raise OSError("no room for one more process")
        self.processes.append(Process(protocol, args))
        return self.processes[-1]

    @property
    def newest(self) -> Process:
        return self.processes[-1]


@pytest.fixture
def reactor() -> Reactor:
    return Reactor()


@pytest.fixture
def archiver(reactor: Reactor, tmp_path: Path) -> ArchiverSupervisor:
    made = ArchiverSupervisor(reactor, log_folder=tmp_path, uri="/archive", every=5.0)
    made.start()
    return made


def answers(deferred: Deferred[Any]) -> list[Any]:
    found: list[Any] = []
    deferred.addCallback(found.append)
    return found


def report(problem: str = "", **figures: int) -> bytes:
    return protocol.encode_report(protocol.Report({"aa": (1, 2)}, (), problem, figures))


# ---------------------------------------------------------------- start and restart


def test_each_report_updates_progress_at_once(
    reactor: Reactor, archiver: ArchiverSupervisor
) -> None:
    reached: list[Mapping[str, Mark]] = []
    archiver.on_reached = reached.append
    reactor.newest.say(report(events=1) + report(events=2))
    assert reached == [{"aa": (1, 2)}] * 2


def test_the_process_gets_its_arguments(reactor: Reactor, tmp_path: Path) -> None:
    rules = MaintenanceRules(True, 5, 7, 9)
    ArchiverSupervisor(
        reactor, log_folder=tmp_path, uri="s3://a", every=2.5, maintenance=rules
    ).start()
    told = " ".join(reactor.newest.arguments)
    assert f"--log {tmp_path} --archive s3://a --every 2.5" in told
    [said] = [json.loads(each) for each in reactor.newest.arguments if each.startswith("{")]
    assert said == {"compact": True, "age_ms": 5, "max_bytes": 7, "max_events": 9}


def test_a_dead_process_is_restarted_with_backoff(
    reactor: Reactor, archiver: ArchiverSupervisor
) -> None:
    rest = MIN_RESTART_DELAY
    for count in range(1, 10):
        reactor.newest.end()
        assert "the archiver has ended" in archiver.problem
        reactor.advance(rest - 0.01)
        assert len(reactor.processes) == count
        reactor.advance(0.02)
        assert len(reactor.processes) == count + 1
        rest = min(2 * rest, supervisor.MAX_RESTART_DELAY)
    assert rest == supervisor.MAX_RESTART_DELAY
    assert archiver.restarts == 9
    # A process that soon ends again must not reset the backoff.
    reactor.newest.say(report(events=1))
    assert archiver.problem == ""
    reactor.newest.end()
    reactor.advance(MIN_RESTART_DELAY)
    assert len(reactor.processes) == 10
    reactor.advance(supervisor.MAX_RESTART_DELAY)
    # A process that lasts resets it.
    reactor.newest.say(report(events=1))
    reactor.advance(SUCCESS_AFTER)
    reactor.newest.end()
    reactor.advance(MIN_RESTART_DELAY)
    assert len(reactor.processes) == 12


def test_a_failed_start_is_retried(reactor: Reactor, archiver: ArchiverSupervisor) -> None:
    reactor.full = True
    reactor.newest.end()
    reactor.advance(MIN_RESTART_DELAY)
    assert "no room" in archiver.problem
    assert answers(archiver.get_coverage({"aa": (0, 0)})) == [Coverage()]
    reactor.full = False
    reactor.advance(2 * MIN_RESTART_DELAY)
    assert len(reactor.processes) == 2


def test_a_new_process_gets_the_dead_origins(
    reactor: Reactor, archiver: ArchiverSupervisor
) -> None:
    archiver.set_dead_origins(["bb", "aa"])
    archiver.set_dead_origins(["aa", "bb"])
    assert reactor.newest.told() == [protocol.DeadOrigins(("aa", "bb"))]
    reactor.newest.end()
    reactor.advance(MIN_RESTART_DELAY)
    assert reactor.newest.told() == [protocol.DeadOrigins(("aa", "bb"))]


def test_reports_update_the_state(reactor: Reactor, archiver: ArchiverSupervisor) -> None:
    line = report(problem="the disk is full", events=5)
    for byte in range(len(line)):
        reactor.newest.say(line[byte : byte + 1])
    assert archiver.reached == {"aa": (1, 2)}
    assert archiver.counters == {"events": 5}
    assert archiver.problem == "the disk is full"
    reactor.newest.say(report(events=6) + report(events=7))
    assert (archiver.problem, archiver.counters) == ("", {"events": 7})


def test_maintenance_counters_are_logged_on_change(
    reactor: Reactor, archiver: ArchiverSupervisor
) -> None:
    with capturedLogs() as events:
        for merged in (0, 40, 40, 50):
            reactor.newest.say(report(events=1, merged=merged))
    texts = [formatEvent(event) for event in events]
    assert [text for text in texts if text and "archive maintenance" in text] == [
        "archive maintenance so far: 40 files merged, 0 expired, 0 deleted",
        "archive maintenance so far: 50 files merged, 0 expired, 0 deleted",
    ]


# ---------------------------------------------------------------- stop


def test_stop_waits_for_the_last_flush(reactor: Reactor, archiver: ArchiverSupervisor) -> None:
    stopped = answers(archiver.stop())
    assert reactor.newest.told() == [protocol.End()]
    assert stopped == []
    reactor.newest.end()
    assert stopped == [None]
    assert reactor.getDelayedCalls() == []
    assert len(reactor.processes) == 1


def test_stop_kills_a_slow_process(reactor: Reactor, archiver: ArchiverSupervisor) -> None:
    stopped = answers(archiver.stop())
    reactor.advance(STOP_TIMEOUT - 0.1)
    assert reactor.newest.signals == []
    reactor.advance(0.2)
    assert reactor.newest.signals == ["KILL"]
    reactor.newest.end()
    assert stopped == [None]
    assert reactor.getDelayedCalls() == []


def test_stop_cancels_a_restart(reactor: Reactor, archiver: ArchiverSupervisor) -> None:
    reactor.newest.end()
    reactor.advance(MIN_RESTART_DELAY / 2)
    assert answers(archiver.stop()) == [None]
    assert reactor.getDelayedCalls() == []
    reactor.advance(10 * MIN_RESTART_DELAY)
    assert len(reactor.processes) == 1


def test_an_ended_process_can_be_killed(reactor: Reactor, archiver: ArchiverSupervisor) -> None:
    stopped = answers(archiver.stop())
    reactor.newest.over = True
    reactor.advance(STOP_TIMEOUT + 1)
    reactor.newest.end()
    assert stopped == [None]


# ---------------------------------------------------------------- malformed output


@pytest.mark.parametrize(
    "rubbish", [b"\xff\xfe\n", b"{}\n", b'{"coverage":[]}\n', b"[" * 10_000 + b"\n"]
)
def test_a_malformed_line_kills_the_process(
    reactor: Reactor, archiver: ArchiverSupervisor, rubbish: bytes
) -> None:
    reactor.newest.say(rubbish + report(events=5))
    assert reactor.newest.signals == ["KILL"]
    assert archiver.counters == {}
    reactor.newest.end()
    reactor.advance(MIN_RESTART_DELAY)
    assert len(reactor.processes) == 2


def test_an_endless_line_kills_the_process(reactor: Reactor, archiver: ArchiverSupervisor) -> None:
    for _ in range(supervisor.MAX_LINE_BYTES // 65_536):
        reactor.newest.say(bytes(65_536))
    assert reactor.newest.signals == []
    reactor.newest.say(b"x")
    assert reactor.newest.signals[:1] == ["KILL"]


def test_an_endless_error_line_is_bounded(
    reactor: Reactor, archiver: ArchiverSupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []
    monkeypatch.setattr(archiver, "log_error_line", heard.append)
    for _ in range(40):
        reactor.newest.complain(b"y" * 65_536)
    reactor.newest.complain(b"\nwhy\xff\n")
    assert [len(each) for each in heard] == [supervisor.MAX_LINE_BYTES - 6, 4]
    assert heard[1] == "why\ufffd"


# ---------------------------------------------------------------- questions


def test_concurrent_coverage_requests_share_one_question(
    reactor: Reactor, archiver: ArchiverSupervisor
) -> None:
    asked = [answers(archiver.get_coverage({"aa": (1, n), "zz": (0, 0)})) for n in (0, 5, 9)]
    assert reactor.newest.told() == [protocol.ASK_COVERAGE]
    told = Coverage({"aa": [((1, 0), (1, 4)), ((1, 6), (1, 8))], "bb": []}, frozenset({"bb"}))
    reactor.newest.say(protocol.encode_coverage(told))
    rest = (told.repairable, frozenset({"bb"}))
    assert asked[0] == [Coverage({"aa": [((1, 0), (1, 4)), ((1, 6), (1, 8))]}, *rest)]
    assert asked[1] == [Coverage({"aa": [((1, 6), (1, 8))]}, *rest)]
    assert asked[2] == [Coverage({"aa": []}, *rest)]
    archiver.get_coverage({})
    assert reactor.newest.told() == [protocol.ASK_COVERAGE]


def test_each_durable_request_is_its_own_question(
    reactor: Reactor, archiver: ArchiverSupervisor
) -> None:
    one, other = (answers(archiver.find_durable("c", name)) for name in ("one", "other"))
    first, second = reactor.newest.told()
    assert isinstance(first, protocol.AskDurable) and isinstance(second, protocol.AskDurable)
    reactor.newest.say(protocol.encode_durable(second.number, "aa", b"stored"))
    reactor.newest.say(protocol.encode_durable(second.number, "aa", b"again"))
    assert (one, other) == ([], [ArchivedDurable("aa", b"stored")])
    reactor.newest.say(protocol.encode_durable(first.number, "", None))
    assert one == [None]


def test_archived_dtds_are_returned(reactor: Reactor, archiver: ArchiverSupervisor) -> None:
    asked = [answers(archiver.find_dtd(REFERENCE)) for _ in range(3)]
    numbers = [said.number for said in reactor.newest.told() if isinstance(said, protocol.AskDtd)]
    reactor.newest.say(protocol.encode_dtd(numbers[0], b"<!ELEMENT a EMPTY>"))
    assert asked == [[b"<!ELEMENT a EMPTY>"], [], []]
    # A slow or dead archiver must not block callers.
    reactor.newest.end()
    assert asked[1:] == [[None], [None]]
    assert answers(archiver.find_dtd(REFERENCE)) == [None]


@pytest.mark.parametrize("stopping", [False, True])
def test_open_questions_are_answered_when_the_process_dies(
    reactor: Reactor, archiver: ArchiverSupervisor, stopping: bool
) -> None:
    asked = [
        answers(archiver.get_coverage({"aa": (0, 0)})),
        answers(archiver.find_durable("c", "d")),
    ]
    if stopping:
        archiver.stop()
    reactor.newest.end()
    assert asked == [[Coverage()], [None]]
    assert answers(archiver.get_coverage({"aa": (0, 0)})) == [Coverage()]
    assert answers(archiver.find_durable("c", "d")) == [None]


def tell(text: bytes | None) -> Callable[[DtdReference, str], Deferred[bytes | None]]:
    return lambda reference, origin: succeed(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (tell(b"<!ELEMENT a EMPTY>"), b"<!ELEMENT a EMPTY>"),
        (tell("<!-- \u00e9 -->".encode("latin-1")), b"<!-- \xe9 -->"),
        (tell(None), None),
        (lambda reference, origin: fail(ValueError("it is broken")), None),
    ],
)
def test_dtd_questions_are_answered(
    reactor: Reactor, archiver: ArchiverSupervisor, text: Any, told: bytes | None
) -> None:
    archiver.dtd_text = text
    reactor.newest.say(protocol.encode_dtd_request([REFERENCE], "aa"))
    assert reactor.newest.told() == [protocol.DtdAnswer(REFERENCE, told, "aa")]


def test_each_flush_has_a_number(reactor: Reactor, archiver: ArchiverSupervisor) -> None:
    archiver.flush_soon()
    archiver.flush_soon()
    assert reactor.newest.told() == [protocol.Flush(1), protocol.Flush(2)]
    reactor.newest.end()
    archiver.flush_soon()
