"""Histories: which marks lie on a log's branch, over restarts and copies."""

from __future__ import annotations

import shutil
from pathlib import Path

from broker.event.place import Mark
from broker.store.commit import Commit, Retention
from broker.store.histories import (
    MOST_HISTORIES,
    NO_DIGEST,
    Chain,
    History,
    Loss,
    digest_on,
    next_epoch,
)
from broker.store.log_file import LogFile
from broker.store.records import LoggedEvent


def own_events(log: LogFile, count: int) -> Commit:
    bounds = log.bounds
    events = [
        LoggedEvent(
            *(bounds.epoch, bounds.offset + i, 0, 1, b"\x90", b"<x/>", log.origin, bounds.last + i)
        )
        for i in range(1, count + 1)
    ]
    return Commit(events=events, covered={log.origin: events[-1].mark})


def started(folder: Path, count: int, now_ms: int) -> LogFile:
    """A log that was started at that time and has logged so many events of its own."""
    log = LogFile(folder, Retention(), wall_clock=lambda: now_ms)
    log.commit(own_events(log, count), log.bounds.epoch, now_ms)
    return log


def fork(log: LogFile, mark: Mark) -> Mark | None:
    return log.chain.fork(mark, (log.bounds.epoch, log.bounds.offset))


def test_a_place_of_another_branch_is_recognised(tmp_path: Path) -> None:
    first = started(tmp_path / "log", 5, 100_000)
    first.close()
    shutil.copytree(tmp_path / "log", tmp_path / "copy")
    lost = started(tmp_path / "log", 5, 200_000)
    other = started(tmp_path / "copy", 3, 300_000)
    common, end = (first.bounds.epoch, 5), (lost.bounds.epoch, 10)
    assert fork(other, common) is None
    assert fork(other, end) == common
    assert fork(other, (other.bounds.epoch, 8)) is None
    assert fork(other, (other.bounds.epoch, 9)) == (other.bounds.epoch, 8)
    assert fork(other, (common[0], 6)) == common
    assert fork(lost, end) is None
    assert fork(lost, (other.bounds.epoch, 8)) == end


def test_a_log_of_the_previous_version_goes_on(tmp_path: Path) -> None:
    """It has small epochs and no histories: places up to where it was upgraded are its own."""
    log = LogFile(tmp_path, Retention(), wall_clock=lambda: 100_000)
    with log._writing() as txn:
        log._tables.meta.put(txn, b"epoch", b"7")
        for key, _ in log._tables.histories.values.items(txn):
            log._tables.histories.values.delete(txn, key)
    log.crash()
    log = LogFile(tmp_path, Retention(), wall_clock=lambda: 200_000)
    (history,) = log.chain.histories
    assert (history.parent, history.branch, history.digest) == (7, (7, 0), NO_DIGEST)
    assert fork(log, (6, 0)) is None
    assert fork(log, (7, 1)) == (7, 0)


def test_histories_and_digests_survive_a_restart_and_are_bounded(tmp_path: Path) -> None:
    log = started(tmp_path, 3, 100_000)
    events = own_events(log, 2).events
    log.commit(own_events(log, 2), log.bounds.epoch, 0)
    digest = log._tables.histories._digest(log._reading())
    log.crash()
    for second in range(200, 200 + MOST_HISTORIES + 20):
        log = LogFile(tmp_path, Retention(), wall_clock=lambda now=second: now * 1000)  # type: ignore[misc]
        log.crash()
    assert len(log.chain.histories) == MOST_HISTORIES
    assert {history.digest for history in log.chain.histories} == {digest}
    assert digest_on(NO_DIGEST, events) != digest_on(digest, events)


def test_epochs_rise_whatever_the_clock_says() -> None:
    assert next_epoch(5, 0) >= 6
    assert next_epoch(5, 1_700_000_000_000) >= 1_700_000_000
    assert next_epoch(1_800_000_000, 1_700_000_000_000) >= 1_800_000_001


def test_a_reader_meets_the_losses_that_lie_before_it() -> None:
    first = Loss((9, 10), (9, 15), (3, 7), (4, 20))
    empty = Loss((9, 20), (9, 20), (3, 7), (5, 30))
    chain = Chain([History(9, 1, 3, (3, 7))], [empty, first])
    assert chain.loss_behind((3, 2)) is first
    assert chain.loss_behind((9, 14)) is first
    assert chain.loss_behind((9, 15)) is None
    assert chain.shown((3, 7)) == (5, 30) and chain.shown((1, 1)) == (1, 1)
