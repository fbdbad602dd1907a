"""Places of events that are not durable yet."""

from __future__ import annotations

from pathlib import Path

import pytest
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from broker.errors import Cloned, LogUnavailable
from broker.log.deduplication import Freshness
from broker.log.event_log import COMMIT_DELAY, RETRY_AFTER, EventLog
from broker.log.pending_commit import RelayedEvents
from tests.log.test_event_log import HEADER_RECORD, Thread, log_at

OTHER = "o" * 16
DOCUMENT = b"<x/>"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def begun(tmp_path: Path, clock: Clock) -> tuple[EventLog, Thread]:
    return log_at(tmp_path, clock)


def own(log: EventLog, count: int) -> None:
    log.append([(HEADER_RECORD, 1, DOCUMENT)] * count, lambda _: None)


def relayed(log: EventLog, *offsets: int, covers: int = 0) -> None:
    entries = [((1, offset), HEADER_RECORD, 1, DOCUMENT) for offset in offsets]
    upto = (1, max(covers, *offsets, 0))
    log.append_relayed(RelayedEvents(OTHER, (1, 0), upto, entries), lambda _: None)


def test_the_position_is_a_cut_of_all_origins_durable_or_not(
    begun: tuple[EventLog, Thread],
) -> None:
    log, disk = begun
    assert log.end_position() == {log.origin: log.own_end} and not log.has_origin(OTHER)
    own(log, 2)
    # The first commit runs.
    relayed(log, 3, covers=5)
    wanted = {log.origin: (log.own_end[0], 2), OTHER: (1, 5)}
    assert log.end_position() == wanted and log.has_origin(OTHER)
    disk.step()
    assert log.end_position() == wanted and log.has_origin(OTHER)
    # Of both origins, pending and being committed.
    own(log, 1)
    relayed(log, 9)
    wanted = {log.origin: (log.own_end[0], 3), OTHER: (1, 9)}
    assert log.end_position() == wanted
    disk.step()
    assert log.end_position() == wanted
    disk.step()
    assert log.end_position() == wanted == log.coverage.marks
    assert not log.has_origin("p" * 16)


def test_the_cut_of_a_new_epoch_is_in_it(tmp_path: Path, clock: Clock) -> None:
    log, disk = log_at(tmp_path, clock)
    own(log, 1)
    disk.step()
    before = log.own_end
    log.crash()
    log, _ = log_at(tmp_path, clock)
    assert log.own_end > before and log.own_end[1] == before[1]
    assert log.end_position() == {log.origin: log.own_end}


def test_own_and_relayed_events_share_one_count_of_serials(begun: tuple[EventLog, Thread]) -> None:
    log, disk = begun
    own(log, 1)
    relayed(log, 4, 5)
    relayed(log, 6)
    own(log, 2)
    while disk.calls:
        disk.step()
    assert (log.bounds.last, log.bounds.offset) == (6, 3)
    read = log.read(1, 100, 1 << 20)
    disk.step()
    events: list[object] = []
    read.addCallback(lambda found: events.extend((e.serial, e.origin, e.offset) for e in found))
    assert events == [
        *((1, log.origin, 1), (2, OTHER, 4), (3, OTHER, 5), (4, OTHER, 6)),
        *((5, log.origin, 2), (6, log.origin, 3)),
    ]


def test_bytes_that_wait_are_those_of_both_commits(begun: tuple[EventLog, Thread]) -> None:
    log, disk = begun
    assert log.pending_bytes == 0
    own(log, 3)
    own(log, 2)
    assert log.pending_bytes == 5 * len(DOCUMENT)
    disk.step()
    assert log.pending_bytes == 2 * len(DOCUMENT)
    disk.step()
    assert log.pending_bytes == 0


def test_a_log_that_another_process_goes_on_gives_no_place(begun: tuple[EventLog, Thread]) -> None:
    log, disk = begun
    log.disown(Cloned("a at 1 and at 2 run on copies of one log"))
    for refused in (lambda: own(log, 1), lambda: relayed(log, 1)):
        with pytest.raises(Cloned, match="a at 1 and at 2"):
            refused()
    ((_, _, arguments),) = disk.calls
    assert [each.__name__ for each in arguments] == ["disown"]
    assert log.own_end[1] == 0


def test_coverage_alone_waits_for_company(begun: tuple[EventLog, Thread], clock: Clock) -> None:
    log, disk = begun
    relayed(log, covers=7)
    assert not disk.calls
    clock.advance(COMMIT_DELAY)
    disk.step()
    assert log.coverage[OTHER] == (1, 7)


def test_a_failure_is_reported_once_and_so_is_its_end(
    begun: tuple[EventLog, Thread], clock: Clock
) -> None:
    log, disk = begun

    def reported() -> list[str]:
        with capturedLogs() as captured:
            own(log, 1)
            while disk.calls:
                disk.step()
            clock.advance(RETRY_AFTER)
            while disk.calls:
                disk.step()
        return [entry["log_level"].name for entry in captured]

    assert reported() == []
    disk.broken = LogUnavailable("full")
    assert reported() == ["error"]
    disk.broken = None
    while disk.calls:
        disk.step()
    clock.advance(RETRY_AFTER)
    while disk.calls:
        disk.step()
    assert log.is_writable
    assert reported() == ["info"]
    assert reported() == []


def test_state_that_comes_while_the_disk_is_full_is_committed_later(
    begun: tuple[EventLog, Thread], clock: Clock
) -> None:
    log, disk = begun
    disk.broken = LogUnavailable("full")
    own(log, 1)
    disk.step()
    disk.step()
    disk.broken = None
    committed = log.when_state_committed()
    assert not committed.called and not disk.calls
    clock.advance(RETRY_AFTER)
    disk.step()
    assert committed.called


def test_repairs_at_the_start_are_reported(tmp_path: Path, clock: Clock) -> None:
    log, disk = log_at(tmp_path, clock)
    own(log, 1)
    disk.step()
    log.close()
    while disk.calls:
        disk.step()
    with capturedLogs() as captured:
        log, _ = log_at(tmp_path, clock)
    assert captured == [] and not log.startup_repairs and not log.startup_repairs.lost
    log.close_unused()


def test_marks_of_duplicates_are_committed_with_their_events(tmp_path: Path, clock: Clock) -> None:
    log, disk = log_at(tmp_path, clock)
    for number in (1, 2, 4):
        log.deduplication.record(("p", 1), number, 1000)
    own(log, 3)
    disk.step()
    log.crash()
    again, _ = log_at(tmp_path, clock)
    known = [again.deduplication.check(("p", 1), number) for number in (1, 2, 3, 4, 5)]
    new, duplicate = Freshness.NEW, Freshness.DUPLICATE
    assert known == [duplicate, duplicate, new, duplicate, new]


def test_the_newest_event_and_the_commits_are_counted(begun: tuple[EventLog, Thread]) -> None:
    log, disk = begun
    own(log, 2)
    relayed(log, 4)
    assert log.newest == (log.own_end[0], 3) and log.newest_durable == (log.own_end[0], 0)
    disk.step()
    disk.step()
    assert log.newest_durable == log.newest == (log.own_end[0], 3)
    assert log.commits == 2


def test_the_next_commit_starts_before_callbacks(begun: tuple[EventLog, Thread]) -> None:
    log, disk = begun
    under_way: list[int] = []
    log.append([(HEADER_RECORD, 1, DOCUMENT)], lambda _: under_way.append(len(disk.calls)))
    own(log, 1)
    disk.step()
    assert under_way == [1]


def test_callbacks_without_contents_are_called_at_once_and_once(
    begun: tuple[EventLog, Thread],
) -> None:
    log, disk = begun
    told: list[object] = []
    log.append([], told.append)
    assert told == [[]]
    assert log.when_state_committed().called
    own(log, 1)
    disk.step()
    assert told == [[]] and disk.calls == []


def test_a_full_disk_is_tried_again_once_and_not_before_its_time(
    begun: tuple[EventLog, Thread], clock: Clock
) -> None:
    log, disk = begun
    disk.broken = LogUnavailable("full")
    own(log, 1)
    disk.step()
    disk.broken = None
    # It opens the file anew.
    disk.step()
    for number in range(3):
        log.put_durable(b"d%d" % number, b"x")
        log.put_client("c", b"1")
    assert len(clock.getDelayedCalls()) == 1
    clock.advance(RETRY_AFTER / 2 - 0.01)
    assert not disk.calls
    clock.advance(0.02)
    disk.step()
    assert not disk.calls and log.is_writable
