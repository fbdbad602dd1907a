from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from broker.errors import BrokerError, LogUnavailable
from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.log.commit import Retention
from broker.log.deduplication import Freshness
from broker.log.event_log import COMMIT_DELAY, RETRY_AFTER, EventLog
from broker.log.log_file import LogFile
from broker.log.logged_event import LoggedEvent, encode_header
from broker.log.pending_commit import RelayedEvents

HEADER_RECORD = encode_header(
    Header(EventId("a", 1, 1, 1), "s", "event", "1.0", SecurityLevel.MED, Liveness.LIVE)
)


class Thread:
    """Runs its next call on request."""

    def __init__(self) -> None:
        self.calls: list[tuple[Deferred[Any], Callable[..., Any], tuple[Any, ...]]] = []
        self.broken: Exception | None = None

    def __call__(self, call: Callable[..., Any], /, *args: Any) -> Deferred[Any]:
        done: Deferred[Any] = Deferred()
        self.calls.append((done, call, args))
        return done

    def step(self) -> None:
        done, call, args = self.calls.pop(0)
        try:
            if self.broken is not None:
                raise self.broken
            result = call(*args)
        except Exception:
            done.errback(Failure())
        else:
            done.callback(result)


def log_at(folder: Path, clock: Clock, **retention: int) -> tuple[EventLog, Thread]:
    thread = Thread()
    file = LogFile(folder, Retention(**retention), sync=False)
    log = EventLog(file, clock=clock, wall_clock=lambda: 1000, write=thread, read=thread)
    return log, thread


class EventLogTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.writer = Thread()
        self.now = 1000
        self.rolled_back: list[int] = []
        self.file = LogFile(Path(self.mktemp()), Retention())
        self.epoch = self.file.bounds.epoch
        self.log = EventLog(
            self.file,
            clock=self.clock,
            wall_clock=lambda: self.now,
            write=self.writer,
            read=self.writer,
            on_rollback=self.rolled_back.append,
        )
        self.told: list[list[int] | str] = []

    def append(self, count: int) -> None:
        def done(result: list[LoggedEvent] | BrokerError) -> None:
            if isinstance(result, BrokerError):
                self.told.append(result.code)
            else:
                self.told.append([event.offset for event in result])

        self.log.append([(HEADER_RECORD, 1, b"<x/>")] * count, done)

    def test_events_are_announced_only_after_the_commit(self) -> None:
        self.append(2)
        self.assertEqual(self.told, [])
        self.writer.step()
        self.assertEqual(self.told, [[1, 2]])

    def test_events_during_a_commit_share_the_next(self) -> None:
        for _ in range(10):
            self.append(1)
        self.writer.step()
        self.writer.step()
        self.assertEqual(self.told, [[n] for n in range(1, 11)])
        self.assertEqual(self.writer.calls, [])

    def test_places_are_given_at_once_and_count_for_the_cut(self) -> None:
        self.append(3)
        self.assertEqual(self.log.own_end, (self.epoch, 3))
        self.assertEqual(self.log.bounds.last, 0)

    def test_a_failed_commit_fails_later_events_and_begins_an_epoch(self) -> None:
        self.append(2)
        self.append(1)
        self.log.deduplication.record(("a", 1), 1, 0)
        self.writer.broken = LogUnavailable("full")
        self.writer.step()
        self.assertEqual(self.told, ["log-unavailable", "log-unavailable"])
        self.assertEqual(self.log.own_end, (self.epoch, 0))
        self.assertIs(self.log.deduplication.record(("a", 1), 1, 0), Freshness.NEW)

    def test_it_rests_after_a_failure_and_then_takes_events_again(self) -> None:
        self.append(1)
        self.writer.broken = LogUnavailable("full")
        self.writer.step()
        self.writer.broken = None
        self.assertRaises(LogUnavailable, self.append, 1)
        self.writer.step()
        self.clock.advance(RETRY_AFTER)
        self.assertRaises(LogUnavailable, self.append, 1)
        self.writer.step()
        self.append(1)
        self.writer.step()
        self.assertEqual(self.told, ["log-unavailable", [1]])
        self.assertEqual((self.log.bounds.epoch, self.log.bounds.last), (self.epoch + 1, 1))

    def test_an_unexpected_exception_of_the_disk_is_a_failure_too(self) -> None:
        self.append(1)
        self.writer.broken = OSError(28, "No space left on device")
        self.writer.step()
        self.assertEqual(self.told, ["log-unavailable"])

    def test_a_batch_of_duplicates_is_answered_after_the_commits_before_it(self) -> None:
        self.append(1)
        self.append(0)
        self.assertEqual(self.told, [])
        self.writer.step()
        self.assertEqual(self.told, [[1], []])

    def test_durable_positions_wait_for_company_and_then_go(self) -> None:
        self.log.put_durable(b"a\0n", b"1")
        self.log.put_durable(b"a\0n", b"2")
        self.assertEqual(self.writer.calls, [])
        self.clock.advance(COMMIT_DELAY)
        self.writer.step()
        self.assertEqual(self.log.durables(), [(b"a\0n", b"2")])

    def test_durable_positions_outlive_a_failed_commit(self) -> None:
        self.log.put_durable(b"a\0n", b"1")
        self.append(1)
        self.writer.broken = LogUnavailable("full")
        self.writer.step()
        self.writer.broken = None
        self.writer.step()
        self.clock.advance(RETRY_AFTER)
        self.writer.step()
        self.assertEqual(self.log.durables(), [(b"a\0n", b"1")])

    def test_arrival_times_never_fall(self) -> None:
        self.append(1)
        self.now = 10
        self.append(1)
        self.writer.step()
        self.writer.step()
        self.assertEqual([event.arrival for event in self.file.read(1, 9, 9999)], [1000, 1000])

    def test_closing_commits_pending_events(self) -> None:
        self.append(1)
        self.append(1)
        closed = self.log.close()
        while self.writer.calls:
            self.writer.step()
        self.successResultOf(closed)
        self.assertEqual(self.told, [[1], [2]])

    def test_closing_does_not_wait_for_a_failed_disk(self) -> None:
        self.append(1)
        closed = self.log.close()
        self.writer.broken = LogUnavailable("full")
        while self.writer.calls:
            self.writer.step()
        self.failureResultOf(closed, LogUnavailable)

    def fail_next(self) -> None:
        self.writer.broken = LogUnavailable("full")
        self.writer.step()
        self.writer.broken = None
        self.writer.step()  # it opens the file again
        self.clock.advance(RETRY_AFTER)

    def begin_again(self) -> None:
        """It has recorded the new epoch."""
        self.writer.step()

    def test_readers_see_no_event_before_its_announcement(self) -> None:
        # The reactor has not processed the commit.
        self.append(2)
        self.writer.step()
        self.append(3)
        done, call, args = self.writer.calls.pop(0)
        result = call(*args)
        self.assertEqual(self.log.bounds.last, 2)
        page = self.log.read(1, 10, 10_000)
        self.writer.step()
        self.assertEqual([event.offset for event in self.successResultOf(page)], [1, 2])
        done.callback(result)
        self.assertEqual(self.log.bounds.last, 5)
        page = self.log.read(1, 10, 10_000)
        self.writer.step()
        self.assertEqual(len(self.successResultOf(page)), 5)

    def test_a_cut_is_never_in_an_epoch_that_a_crash_would_lose(self) -> None:
        self.append(2)
        self.writer.step()
        self.append(3)
        self.assertEqual(self.log.own_end, (self.epoch, 5))
        self.fail_next()
        self.assertEqual(self.log.own_end, (self.epoch, 2))
        self.begin_again()
        self.append(4)
        told = self.log.own_end
        self.assertEqual(told, (self.epoch + 1, 6))
        self.log.crash()
        again = LogFile(self.file._folder, Retention())
        self.addCleanup(again.close)
        self.assertGreater((again.bounds.epoch, again.bounds.offset), told)

    def test_an_end_in_good_order_does_not_give_the_places_of_failed_commits_again(self) -> None:
        self.append(2)
        self.writer.step()
        self.append(3)
        self.fail_next()
        closed = self.log.close()
        while self.writer.calls:
            self.writer.step()
        self.successResultOf(closed)
        again = LogFile(self.file._folder, Retention())
        self.addCleanup(again.close)
        self.assertGreater(again.bounds.epoch, self.epoch + 1)
        self.assertEqual(again.bounds.last, 2)

    def test_a_rollback_is_reported(self) -> None:
        self.append(2)
        self.writer.step()
        self.append(3)
        self.assertEqual(self.rolled_back, [])
        self.fail_next()
        self.assertEqual(self.rolled_back, [3])

    def test_the_first_event_at_a_time_may_be_under_way(self) -> None:
        self.append(2)
        self.writer.step()
        self.now = 2000
        self.append(1)
        self.now = 3000
        self.append(1)
        self.assertEqual(
            [self.log.first_at(t) for t in (0, 1000, 1001, 2000, 2001, 3000, 3001)],
            [1, 1, 3, 3, 4, 4, 5],
        )

    def test_the_callback_of_a_durable_subscription_is_called_when_it_is_stored(self) -> None:
        stored: list[str] = []
        self.log.put_durable(b"a\0n", b"1", lambda: stored.append("n"))
        self.writer.step()
        self.assertEqual((stored, self.log.durables()), (["n"], [(b"a\0n", b"1")]))

    def test_a_durable_subscription_waits_for_the_disk(self) -> None:
        stored: list[str] = []
        self.append(1)
        self.log.put_durable(b"a\0n", b"1", lambda: stored.append("n"))
        self.fail_next()
        self.log.put_durable(b"a\0m", b"1", lambda: stored.append("m"))
        self.assertEqual(stored, [])
        while self.writer.calls:
            self.writer.step()
        self.assertEqual(stored, ["n", "m"])
        self.assertEqual(len(self.log.durables()), 2)

    def test_no_commit_is_tried_before_the_rest_is_over(self) -> None:
        self.append(1)
        self.writer.broken = LogUnavailable("full")
        self.writer.step()
        self.writer.broken = None
        self.writer.step()
        self.log.put_durable(b"a\0n", b"1", lambda: None)
        self.assertEqual(self.writer.calls, [])
        self.clock.advance(RETRY_AFTER)
        self.assertEqual(len(self.writer.calls), 1)

    def test_a_callback_that_raises_does_not_affect_others(self) -> None:
        def broken(_: list[LoggedEvent] | BrokerError) -> None:
            raise RuntimeError("a bug")

        for outcome in (None, LogUnavailable("full")):
            self.append(1)
            self.log.append([(HEADER_RECORD, 1, b"<x/>")], broken)
            self.append(1)
            self.writer.step()
            self.writer.broken = outcome
            self.writer.step()
            self.writer.broken = None
            while self.writer.calls:
                self.writer.step()
            self.clock.advance(RETRY_AFTER)
            self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
        self.assertEqual(self.told, [[1], [3], [4], "log-unavailable"])


def test_coverage_never_falls(tmp_path: Path) -> None:
    """Events appended before a failure's report are logged after later ones."""
    clock = Clock()
    log, disk = log_at(tmp_path, clock)
    log.append_relayed(RelayedEvents("o", (1, 0), (1, 20), []), lambda _: None)
    clock.advance(1.0)
    disk.step()
    assert log.coverage["o"] == (1, 20)
    log.append_relayed(RelayedEvents("o", (1, 0), (1, 15), []), lambda _: None)
    clock.advance(1.0)
    disk.step()
    assert log.coverage["o"] == (1, 20)
    assert log._file._tables.origins.covered(log._file._reading())["o"] == (1, 20)
