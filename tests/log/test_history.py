"""Histories over restarts and copies."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from broker.event.place import Mark, NamedHistory
from broker.log import history
from broker.log.commit import Commit, Retention
from broker.log.history import (
    EPOCH_MS,
    EPOCHS_SINCE_MS,
    MAX_RUNS,
    Adoption,
    BranchLoss,
    History,
    HistoryChain,
    missing_runs,
    next_epoch,
)
from broker.log.log_file import LogFile
from broker.log.logged_event import LoggedEvent

#: Ms since 1970.
BEGAN = 1_700_000_000_000


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
    log = LogFile(folder, Retention(), wall_clock=lambda: now_ms)
    log.commit(own_events(log, count), log.bounds.epoch, now_ms)
    return log


def fork(log: LogFile, mark: Mark) -> Mark | None:
    return log.history_chain.find_fork(mark, (log.bounds.epoch, log.bounds.offset))


def test_a_place_of_another_branch_is_recognised(tmp_path: Path) -> None:
    first = started(tmp_path / "log", 5, BEGAN)
    first.close()
    shutil.copytree(tmp_path / "log", tmp_path / "copy")
    lost = started(tmp_path / "log", 5, BEGAN + 1_000)
    other = started(tmp_path / "copy", 3, BEGAN + 2_000)
    common, end = (first.bounds.epoch, 5), (lost.bounds.epoch, 10)
    assert fork(other, common) is None
    assert fork(other, end) == common
    assert fork(other, (other.bounds.epoch, 8)) is None
    assert fork(other, (other.bounds.epoch, 9)) == (other.bounds.epoch, 8)
    assert fork(other, (common[0], 6)) == common
    assert fork(lost, end) is None
    assert fork(lost, (other.bounds.epoch, 8)) == end


def test_a_log_of_the_previous_version_goes_on(tmp_path: Path) -> None:
    """It has small epochs and no histories."""
    log = LogFile(tmp_path, Retention(), wall_clock=lambda: BEGAN)
    with log._writing() as txn:
        log._tables.meta.put(txn, b"epoch", b"7")
        for key, _ in log._tables.histories.table.items(txn):
            log._tables.histories.table.delete(txn, key)
    log.crash()
    log = LogFile(tmp_path, Retention(), wall_clock=lambda: BEGAN + 1_000)
    (history,) = log.history_chain.histories
    assert (history.parent, history.branch) == (7, (7, 0))
    assert fork(log, (6, 0)) is None
    assert fork(log, (7, 1)) == (7, 0)


def test_a_place_of_another_process_in_the_same_epoch_is_recognised_by_its_id(
    tmp_path: Path,
) -> None:
    """Two copies started at the same moment give the same places."""
    first = started(tmp_path / "log", 5, BEGAN)
    first.close()
    shutil.copytree(tmp_path / "log", tmp_path / "copy")
    one, other = (started(tmp_path / name, 3, BEGAN + 1_000) for name in ("log", "copy"))
    assert one.bounds.epoch == other.bounds.epoch
    (*_, history), (*_, twin) = one.history_chain.histories, other.history_chain.histories
    place, newest = (one.bounds.epoch, 7), (one.bounds.epoch, 8)
    assert one.history_chain.find_fork(place, newest) is None
    assert one.history_chain.find_fork(place, newest, [named(history)]) is None
    assert one.history_chain.find_fork(place, newest, [named(twin)]) == (first.bounds.epoch, 5)


@pytest.mark.parametrize("byte", [0x00, 0xFF])
def test_the_id_of_a_history_has_63_bits_and_is_not_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, byte: int
) -> None:
    monkeypatch.setattr("os.urandom", lambda size: bytes([byte]) * size)
    log = started(tmp_path, 1, BEGAN)
    (history,) = log.history_chain.histories
    assert 0 < history.id < 1 << 63


def named(history: History) -> NamedHistory:
    return history.epoch, history.id, history.branch


def test_the_path_to_a_place_gives_the_beginning_of_its_branch() -> None:
    """The log was restarted after the other branch: its places seem to follow it."""
    chain = HistoryChain([History(2, 1, 1, (1, 0)), History(9, 3, 2, (2, 30))])
    far = (7, 15)
    assert chain.find_fork(far, (9, 40)) == (2, 30)
    path = [(2, 1, (1, 0)), (5, 6, (2, 10)), (7, 8, (5, 12))]
    assert chain.find_fork(far, (9, 40), path) == (2, 10)
    assert chain.find_fork(far, (9, 40), path[2:]) == (2, 30)
    assert chain.find_fork((2, 20), (9, 40), path[:1]) is None


def test_histories_survive_a_restart_and_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "MAX_HISTORIES", 30)
    log = started(tmp_path, 3, BEGAN)
    log.commit(
        Commit(histories={"b" * 24: ((8, 7, (6, 5)), (9, 1 << 62, (8, 6)))}), log.bounds.epoch, 0
    )
    log.crash()
    for second in range(200, 250):
        log = LogFile(tmp_path, Retention(), wall_clock=lambda now=second: now * 1000)  # type: ignore[misc]
        log.crash()
    assert len(log.history_chain.histories) == 30
    assert log.foreign_histories == {"b" * 24: ((8, 7, (6, 5)), (9, 1 << 62, (8, 6)))}


def test_events_with_places_from_before_an_epoch_belong_to_the_previous_one(
    tmp_path: Path,
) -> None:
    log = started(tmp_path, 3, BEGAN)
    epoch = log.bounds.epoch
    log.commit(own_events(log, 2), epoch + 1, BEGAN)
    assert log.history_chain.histories[-1].branch == (epoch, 5)
    assert fork(log, (epoch, 5)) is None


def test_a_log_that_is_disowned_notes_where_its_process_began(tmp_path: Path) -> None:
    """Also after a failed commit has begun a history."""
    log = started(tmp_path, 3, BEGAN)
    former, began = log.origin, (log.bounds.epoch, 3)
    log.close()
    log = started(tmp_path, 2, BEGAN + 1_000)
    log.commit(own_events(log, 2), log.bounds.epoch + 1, BEGAN)
    log.change_history(lambda histories, txn: histories.disown(txn, log.start_mark))
    log.close()
    log = LogFile(tmp_path, Retention(), wall_clock=lambda: BEGAN + 2_000)
    assert log.origin != former and log.pending_adoption == Adoption(former, began, True)
    log.close()


def test_epochs_rise_with_any_clock() -> None:
    assert next_epoch(5, 0) == 6
    now = EPOCHS_SINCE_MS + 1_000_000
    assert next_epoch(5, now) == 1_000_000 // EPOCH_MS
    assert next_epoch(next_epoch(5, now), now) == 1_000_000 // EPOCH_MS + 1
    assert next_epoch(1_800_000_000, now) == 1_800_000_001


def test_a_loss_gives_each_reader_its_gaps() -> None:
    loss = BranchLoss((9, 10), (9, 15), (3, 7), (4, 20), ((8, 10), (19, 20)))
    empty = BranchLoss((9, 20), (9, 20), (3, 7), (5, 30))
    chain = HistoryChain([History(9, 1, 3, (3, 7))], [empty, loss])
    assert chain.losses == (loss, empty)
    assert chain.newest_of_branch((3, 7)) == (5, 30) and chain.newest_of_branch((1, 1)) == (1, 1)
    assert list(loss.gaps((3, 2))) == [((4, 8), (4, 10)), ((4, 19), (4, 20))]
    assert list(loss.gaps((4, 9))) == [((4, 10), (4, 10)), ((4, 19), (4, 20))]
    assert list(loss.gaps((4, 20))) == []
    assert list(loss.gaps((9, 10))) == list(loss.gaps((0, 0)))
    assert loss.is_before((4, 19)) and loss.is_before((1, 1))
    assert not loss.is_before((4, 20)) and not loss.is_before((9, 1))
    assert not empty.is_before((3, 7))
    first = BranchLoss((9, 0), (9, 3), (3, 0), (3, 3), ((1, 3),))
    assert list(first.gaps((0, 0))) == [((3, 1), (3, 3))]


def test_missing_numbers_are_returned_in_runs() -> None:
    assert missing_runs(5, 4, []) == ()
    assert missing_runs(5, 9, [5, 9, 7, 7, 12]) == ((6, 6), (8, 8))
    assert missing_runs(1, 3, [1, 2, 3]) == ()
    many = missing_runs(1, 1000, range(2, 1000, 2))
    assert len(many) == MAX_RUNS and many[-1][1] == 1000
    odd = tuple((n, n) for n in range(1, 2 * MAX_RUNS, 2))
    assert missing_runs(1, odd[-1][1], range(2, 2 * MAX_RUNS, 2)) == odd
