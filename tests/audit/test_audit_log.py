from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred
from zope.interface.verify import verifyClass

from broker.audit import AuditLog, IAuditLog, NoAuditLog
from broker.audit.audit_log import MAX_FAILURES, MAX_QUEUED, REPEAT_INTERVAL
from broker.errors import AuthenticationFailed, NotAllowed
from broker.limit_registry import LimitRegistry


class Case:
    """An audit log whose thread and clock the test moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.lines: list[str] = []
        self.is_disk_full = False
        self.is_thread_busy = False
        self._calls: list[tuple[Deferred[None], Callable[[], None]]] = []
        self.limits = LimitRegistry()
        self.log = AuditLog(
            self._append,
            self._run,
            wall_clock=lambda: 1_795_000_000_123,
            now=lambda: self.now,
            limit_registry=self.limits,
        )

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]

    def run_thread(self) -> None:
        self.is_thread_busy = False
        while self._calls:
            done, call = self._calls.pop(0)
            maybeDeferred(call).chainDeferred(done)

    def _append(self, lines: Sequence[str]) -> None:
        if self.is_disk_full:
            raise OSError(28, "No space left on device")
        self.lines += lines

    def _run(self, call: Callable[..., None], *args: Any) -> Deferred[None]:
        done: Deferred[None] = Deferred()
        self._calls.append((done, lambda: call(*args)))
        if not self.is_thread_busy:
            self.run_thread()
        return done


def test_both_logs_provide_the_interface() -> None:
    verifyClass(IAuditLog, AuditLog)
    verifyClass(IAuditLog, NoAuditLog)


def test_a_record_names_account_address_action_and_result() -> None:
    case = Case()
    case.log.record("login", account="alice", client="a1", address="10.0.0.1:4711")
    case.log.record("subscribe", account="alice", subject="asdi.>", error=NotAllowed("no right"))
    assert case.records == [
        {
            "time": "2026-11-18T11:06:40.123Z",
            "action": "login",
            "account": "alice",
            "client": "a1",
            "address": "10.0.0.1:4711",
            "result": "ok",
        },
        {
            "time": "2026-11-18T11:06:40.123Z",
            "action": "subscribe",
            "account": "alice",
            "subject": "asdi.>",
            "result": "not-allowed",
            "detail": "no right",
        },
    ]


def test_a_text_can_not_forge_a_line_or_move_a_cursor() -> None:
    case = Case()
    name = 'eve"}\n{"action": "login"}\r\x1b[2J\x7f\x85\u202e\ud800' + "x" * 5000
    case.log.record("login", account=name, error=AuthenticationFailed(name))
    (line,) = case.lines
    assert line.isascii() and line.isprintable()
    assert len(line) < 3000
    assert json.loads(line)["account"] == name[:400]


def test_equal_failures_are_one_record_and_later_their_number() -> None:
    case = Case()
    for port in range(50):
        case.log.record("login", address=f"10.0.0.1:{port}", error=AuthenticationFailed("wrong"))
    case.log.record("login", address="10.0.0.2:1", error=AuthenticationFailed("wrong"))
    assert [each["address"] for each in case.records] == ["10.0.0.1:0", "10.0.0.2:1"]
    case.now += REPEAT_INTERVAL - 1
    case.log.tick()
    assert len(case.records) == 2
    case.now += 1
    case.log.tick()
    assert [each.get("repeated") for each in case.records] == [None, None, 49]
    case.log.record("login", address="10.0.0.1:99", error=AuthenticationFailed("wrong"))
    assert len(case.records) == 4


def test_equal_successes_are_all_recorded() -> None:
    case = Case()
    for _ in range(3):
        case.log.record("login", account="alice")
    assert len(case.records) == 3


def test_a_flood_of_different_failures_is_counted() -> None:
    case = Case()
    for number in range(MAX_FAILURES + 20):
        case.log.record("login", account=f"a{number}", error=AuthenticationFailed("wrong"))
    assert len(case.records) == MAX_FAILURES
    case.now += REPEAT_INTERVAL
    case.log.tick()
    assert case.records[MAX_FAILURES:] == [
        {"time": "2026-11-18T11:06:40.123Z", "action": "further-failures", "repeated": 20}
    ]


def test_a_full_queue_loses_records_and_says_how_many() -> None:
    case = Case()
    case.is_thread_busy = True
    # The first is being written.
    for number in range(1 + MAX_QUEUED + 7):
        case.log.record("login", account=f"a{number}")
    (limit,) = case.limits
    assert (limit.find_used(), limit.reached) == (MAX_QUEUED, 7)
    case.run_thread()
    accounts = [each["account"] for each in case.records if "account" in each]
    assert accounts == [f"a{number}" for number in range(1 + MAX_QUEUED)]
    lost = [each["repeated"] for each in case.records if each["action"] == "records-lost"]
    assert lost == [7]


def test_records_of_a_full_disk_are_counted_and_later_ones_written() -> None:
    case = Case()
    case.is_disk_full = True
    case.log.record("login", account="alice")
    case.log.record("login", account="bob")
    case.is_disk_full = False
    case.log.record("login", account="carol")
    case.log.record("login", account="dave")
    shown = [each.get("account") or each["repeated"] for each in case.records]
    assert shown == ["carol", 2, "dave"]


def test_draining_waits_for_the_thread_and_writes_repetitions() -> None:
    case = Case()
    for _ in range(3):
        case.log.record("login", error=AuthenticationFailed("wrong"))
    case.is_thread_busy = True
    case.log.record("login", account="alice")
    drained = Deferred.fromCoroutine(case.log.drain())
    assert not drained.called
    case.run_thread()
    assert drained.called
    assert [each.get("repeated") for each in case.records] == [None, None, 2]
