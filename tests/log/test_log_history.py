from __future__ import annotations

from pathlib import Path

import pytest
from twisted.internet.task import Clock

from broker.log.event_log import COMMIT_DELAY, EventLog
from tests.log.test_event_log import Thread, log_at
from tests.log.test_event_log_places import OTHER, own


@pytest.fixture
def begun(tmp_path: Path) -> tuple[EventLog, Thread, Clock]:
    """The process began after its third event and has logged two."""
    log, disk = log_at(tmp_path, Clock())
    own(log, 3)
    disk.step()
    log.crash()
    clock = Clock()
    log, disk = log_at(tmp_path, clock)
    own(log, 2)
    disk.step()
    return log, disk, clock


def test_a_place_ahead_of_a_log_is_of_another_process_that_went_on_a_copy_of_it(
    begun: tuple[EventLog, Thread, Clock],
) -> None:
    log, *_ = begun
    epoch, newest = log.newest_own
    began = log.start_mark
    assert (began[1], newest) == (3, 5) and began[0] <= epoch
    assert log.find_fork((epoch, 5)) is None
    assert log.find_fork((epoch, 6)) == began
    assert log.find_fork((epoch + 1, 6)) == began
    assert log.find_fork((epoch, 5), [log.current_history]) is None


def test_a_known_path_to_a_place_ahead_gives_its_fork(
    begun: tuple[EventLog, Thread, Clock],
) -> None:
    log, *_ = begun
    epoch, newest = log.newest_own
    assert log.find_fork((epoch, 6), [log.current_history]) == (epoch, newest)
    other = (epoch + 1, 77, (epoch, 4))
    assert log.find_fork((epoch + 1, 6), [log.current_history, other]) == (epoch, 4)


def test_histories_of_another_origin_are_known_at_once_and_to_the_next_process(
    begun: tuple[EventLog, Thread, Clock], tmp_path: Path
) -> None:
    log, disk, clock = begun
    assert log.histories_of(OTHER) == ()
    named = ((8, 7, (6, 5)), (9, 8, (8, 6)))
    log.put_histories("another", named[:1])
    log.put_histories(OTHER, named)
    assert log.histories_of(OTHER) == named and log.histories_of("another") == named[:1]
    clock.advance(COMMIT_DELAY)
    disk.step()
    log.crash()
    again, _ = log_at(tmp_path, clock)
    assert again.histories_of(OTHER) == named and again.histories_of("another") == named[:1]


def test_the_places_of_a_loss_are_covered_and_events_go_on_behind_them(
    begun: tuple[EventLog, Thread, Clock],
) -> None:
    log, disk, _ = begun
    told: list[object] = []
    branch = log.start_mark
    upto = (branch[0], 9)
    log.record_loss(branch, upto, ((4, 5), (8, 9)), told.append)
    epoch = log.newest_own[0]
    # Four places are empty; offsets continue above those of the other branch.
    assert log.newest_own == (epoch, 10)
    assert log.end_position() == {log.origin: (epoch, 10)}
    disk.step()
    assert told == [None]
    assert log.coverage[log.origin] == (epoch, 10)
    (loss,) = log.history_chain.losses
    assert (loss.after, loss.last, loss.upto) == ((epoch, 5), (epoch, 9), upto)
    own(log, 1)
    disk.step()
    assert log.newest_own == (epoch, 11) == log.coverage[log.origin]
