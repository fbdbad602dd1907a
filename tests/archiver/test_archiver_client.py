from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail, succeed
from twisted.logger import capturedLogs, formatEvent

from broker.archiver import messages
from broker.archiver.archiver_client import MIN_RESTART_DELAY, ArchiverClient
from broker.archiver.maintenance_rules import MaintenanceRules
from broker.dtd.reference import DtdReference
from broker.event.place import Mark
from broker.recovery.archive_access import ArchivedDurable, Coverage
from broker.transport.backoff import SUCCESS_AFTER
from tests.child.simulated_child import Reactor

REFERENCE = DtdReference("flight", "1.0")
DTD = ("flight", "1.0", "")


@pytest.fixture
def reactor() -> Reactor:
    return Reactor(messages.CODEC)


@pytest.fixture
def archiver(reactor: Reactor, tmp_path: Path) -> ArchiverClient:
    made = ArchiverClient(reactor, log_folder=tmp_path, uri="/archive", every=5.0)
    made.start()
    return made


def answers(deferred: Deferred[Any]) -> list[Any]:
    found: list[Any] = []
    deferred.addCallback(found.append)
    return found


def report(problem: str = "", **figures: int) -> messages.Report:
    return messages.Report({"aa": (1, 2)}, problem, figures)


# ---------------------------------------------------------------- start and restart


def test_each_report_updates_progress_at_once(reactor: Reactor, archiver: ArchiverClient) -> None:
    reached: list[Mapping[str, Mark]] = []
    archiver.on_reached = reached.append
    reactor.newest.send(report(events=1), report(events=2))
    assert reached == [{"aa": (1, 2)}] * 2


def test_the_process_gets_its_arguments(reactor: Reactor, tmp_path: Path) -> None:
    rules = MaintenanceRules(True, 5, 7, 9)
    ArchiverClient(reactor, log_folder=tmp_path, uri="s3://a", every=2.5, maintenance=rules).start()
    told = " ".join(reactor.newest.arguments)
    assert f"--log {tmp_path} --archive s3://a --every 2.5" in told
    [said] = [json.loads(each) for each in reactor.newest.arguments if each.startswith("{")]
    assert said == {"compact": True, "age_ms": 5, "max_bytes": 7, "max_events": 9}


def test_only_a_process_that_archives_and_lasts_resets_the_backoff(
    reactor: Reactor, archiver: ArchiverClient
) -> None:
    for _ in range(2):
        reactor.newest.end()
        assert "the archiver has ended" in archiver.problem
        reactor.advance(2 * MIN_RESTART_DELAY)
    assert (len(reactor.processes), archiver.restarts) == (3, 2)
    reactor.newest.send(messages.Report(problem="the disk is full"))
    reactor.advance(SUCCESS_AFTER)
    reactor.newest.end()
    reactor.advance(MIN_RESTART_DELAY)
    assert len(reactor.processes) == 3
    reactor.advance(3 * MIN_RESTART_DELAY)
    reactor.newest.send(report(events=1))
    assert archiver.problem == ""
    reactor.advance(SUCCESS_AFTER)
    reactor.newest.end()
    reactor.advance(MIN_RESTART_DELAY)
    assert len(reactor.processes) == 5


def test_a_failed_start_is_a_problem(reactor: Reactor, archiver: ArchiverClient) -> None:
    reactor.error = OSError("no room for one more process")
    reactor.newest.end()
    reactor.advance(MIN_RESTART_DELAY)
    assert "no room" in archiver.problem
    assert answers(archiver.get_coverage({"aa": (0, 0)})) == [Coverage()]


def test_a_new_process_gets_the_dead_origins(reactor: Reactor, archiver: ArchiverClient) -> None:
    archiver.set_dead_origins(["bb", "aa"])
    archiver.set_dead_origins(["aa", "bb"])
    assert reactor.newest.received() == [messages.DeadOrigins(("aa", "bb"))]
    reactor.newest.end()
    reactor.advance(MIN_RESTART_DELAY)
    assert reactor.newest.received() == [messages.DeadOrigins(("aa", "bb"))]


def test_reports_update_the_state(reactor: Reactor, archiver: ArchiverClient) -> None:
    reactor.newest.send(report(problem="the disk is full", events=5))
    assert archiver.reached == {"aa": (1, 2)}
    assert archiver.counters == {"events": 5}
    assert archiver.problem == "the disk is full"
    reactor.newest.send(report(events=6), report(events=7))
    assert (archiver.problem, archiver.counters) == ("", {"events": 7})


def test_maintenance_counters_are_logged_on_change(
    reactor: Reactor, archiver: ArchiverClient
) -> None:
    with capturedLogs() as events:
        for merged in (0, 40, 40, 50):
            reactor.newest.send(report(events=1, merged=merged))
    texts = [formatEvent(event) for event in events]
    assert [text for text in texts if text and "archive maintenance" in text] == [
        "archive maintenance so far: 40 files merged, 0 expired, 0 deleted",
        "archive maintenance so far: 50 files merged, 0 expired, 0 deleted",
    ]


# ---------------------------------------------------------------- stop


def test_stop_waits_for_the_last_flush(reactor: Reactor, archiver: ArchiverClient) -> None:
    stopped = answers(archiver.stop())
    assert reactor.newest.received() == [messages.End()]
    assert stopped == []
    reactor.newest.end()
    assert stopped == [None]
    assert reactor.getDelayedCalls() == []
    assert len(reactor.processes) == 1


# ---------------------------------------------------------------- questions


def test_concurrent_coverage_requests_share_one_question(
    reactor: Reactor, archiver: ArchiverClient
) -> None:
    asked = [answers(archiver.get_coverage({"aa": (1, n), "zz": (0, 0)})) for n in (0, 5, 9)]
    assert reactor.newest.received() == [messages.AskCoverage()]
    told = Coverage({"aa": [((1, 0), (1, 4)), ((1, 6), (1, 8))], "bb": []}, frozenset({"bb"}))
    reactor.newest.send(messages.FoundCoverage(told))
    rest = (told.repairable, frozenset({"bb"}))
    assert asked[0] == [Coverage({"aa": [((1, 0), (1, 4)), ((1, 6), (1, 8))]}, *rest)]
    assert asked[1] == [Coverage({"aa": [((1, 6), (1, 8))]}, *rest)]
    assert asked[2] == [Coverage({"aa": []}, *rest)]
    archiver.get_coverage({})
    assert reactor.newest.received() == [messages.AskCoverage()]


def test_each_durable_request_is_its_own_question(
    reactor: Reactor, archiver: ArchiverClient
) -> None:
    one, other = (answers(archiver.find_durable("c", name)) for name in ("one", "other"))
    first, second = reactor.newest.received()
    assert isinstance(first, messages.AskDurable) and isinstance(second, messages.AskDurable)
    reactor.newest.send(messages.FoundDurable(second.number, ArchivedDurable("aa", b"stored")))
    reactor.newest.send(messages.FoundDurable(second.number, ArchivedDurable("aa", b"again")))
    assert (one, other) == ([], [ArchivedDurable("aa", b"stored")])
    reactor.newest.send(messages.FoundDurable(first.number, None))
    assert one == [None]


def test_archived_dtds_are_returned(reactor: Reactor, archiver: ArchiverClient) -> None:
    asked = [answers(archiver.find_dtd(REFERENCE)) for _ in range(3)]
    numbers = [
        said.number for said in reactor.newest.received() if isinstance(said, messages.AskDtd)
    ]
    reactor.newest.send(messages.FoundDtd(numbers[0], b"<!ELEMENT a EMPTY>"))
    assert asked == [[b"<!ELEMENT a EMPTY>"], [], []]
    # A slow or dead archiver must not block callers.
    reactor.newest.end()
    assert asked[1:] == [[None], [None]]
    assert answers(archiver.find_dtd(REFERENCE)) == [None]


@pytest.mark.parametrize("stopping", [False, True])
def test_open_questions_are_answered_when_the_process_dies(
    reactor: Reactor, archiver: ArchiverClient, stopping: bool
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
    reactor: Reactor, archiver: ArchiverClient, text: Any, told: bytes | None
) -> None:
    archiver.dtd_text = text
    reactor.newest.send(messages.AskDtds((DTD,), "aa"))
    assert reactor.newest.received() == [messages.DtdAnswer(DTD, told, "aa")]


def test_a_flush_is_only_for_a_running_process(reactor: Reactor, archiver: ArchiverClient) -> None:
    archiver.flush_soon()
    assert reactor.newest.received() == [messages.Flush()]
    reactor.newest.end()
    archiver.flush_soon()
    assert reactor.newest.received() == []
