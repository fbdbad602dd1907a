from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from broker.errors import LogCorrupt, LogUnavailable
from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.log.commit import Bounds, Commit, Retention
from broker.log.log_file import LogFile
from broker.log.logged_event import LoggedEvent, encode_header

RECORD = encode_header(
    Header(EventId("a", 1, 1, 1), "s", "event", "1.0", SecurityLevel.MED, Liveness.LIVE)
)


def events(
    first: int, count: int, *, epoch: int = 1, arrival: int = 0, size: int = 100, origin: str = "n"
) -> Commit:
    return Commit(
        [
            LoggedEvent(
                epoch,
                offset,
                arrival + offset,
                1,
                RECORD,
                b"%d" % offset + b"x" * size,
                origin,
                offset,
            )
            for offset in range(first, first + count)
        ]
    )


def offsets(log: LogFile, start: int = 0, limit: int = 10**6) -> list[int]:
    return [event.offset for event in log.read(start, limit, 1 << 40)]


def test_a_new_log_is_empty_and_in_its_first_epoch(tmp_path: Path) -> None:
    log = LogFile(tmp_path, Retention())
    (history,) = log.history_chain.histories
    assert log.bounds == Bounds(epoch=history.epoch, first=1, last=0, used_bytes=0)
    assert log.read(1, 10, 1000) == []


def test_committed_events_are_read_unchanged(tmp_path: Path) -> None:
    log = LogFile(tmp_path, Retention())
    commit = events(1, 3)
    log.commit(commit, 1, 0)
    read = log.read(2, 10, 1 << 20)
    assert [(e.epoch, e.offset, e.arrival, e.level, e.record, e.document) for e in read] == [
        (e.epoch, e.offset, e.arrival, e.level, e.record, e.document) for e in commit.events[1:]
    ]


def test_a_clean_close_too_begins_a_new_epoch(tmp_path: Path) -> None:
    """A closed log may be copied, and the copy started."""
    log = LogFile(tmp_path, Retention())
    epoch = log.bounds.epoch
    log.commit(events(1, 5), epoch, 0)
    origin = log.origin
    log.close()
    again = LogFile(tmp_path, Retention())
    assert (again.origin, again.bounds.last) == (origin, 5)
    assert again.bounds.epoch > epoch


def test_an_unclean_end_begins_a_new_epoch_and_loses_nothing(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; sys.path.insert(0, 'tests/log')\n"
        "from test_log_file import LogFile, Retention, events\n"
        "log = LogFile(Path(sys.argv[1]), Retention())\n"
        "log.commit(events(1, 5), log.bounds.epoch, 0)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    root = Path(__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        check=False,
    )
    assert run.returncode == -9
    log = LogFile(tmp_path, Retention())
    first, second = log.history_chain.histories[0], log.history_chain.histories[-1]
    assert first.epoch < log.bounds.epoch == second.epoch
    assert (log.bounds.first, log.bounds.last) == (1, 5)


def test_the_oldest_events_go_when_the_size_is_reached(tmp_path: Path) -> None:
    log = LogFile(tmp_path, Retention(max_bytes=1 << 20))
    for first in range(1, 5001, 100):
        log.commit(events(first, 100, size=900), 1, 0)
        assert log.bounds.used_bytes < (1 << 20) + 200_000
    bounds = log.bounds
    assert bounds.last == 5000
    assert 500 < bounds.last - bounds.first < 1500
    assert offsets(log) == list(range(bounds.first, 5001))


def test_the_oldest_events_go_when_their_age_is_reached(tmp_path: Path) -> None:
    log = LogFile(tmp_path, Retention(max_age_ms=50))
    for first in range(1, 101, 10):
        log.commit(events(first, 10), 1, 0)
    # Newer events of the seventh commit keep all of it.
    log.commit(events(101, 1), 1, 115)
    assert log.bounds.first == 61


def test_offsets_go_on_after_retention_took_everything(tmp_path: Path) -> None:
    log = LogFile(tmp_path, Retention(max_age_ms=1))
    log.commit(events(1, 10), 1, 10_000)
    assert (log.bounds.first, log.bounds.last) == (11, 10)
    log.close()
    assert LogFile(tmp_path, Retention()).bounds.last == 10


def test_the_file_stays_bounded_while_another_process_reads_it(tmp_path: Path) -> None:
    log = LogFile(tmp_path, Retention(max_bytes=2 << 20), sync=False)
    log.commit(events(1, 100, size=900), 1, 0)
    code = (
        "import sys; from pathlib import Path\n"
        "from broker.log.external_reader import read_events\n"
        "print('ready', flush=True)\n"
        "read = 0\n"
        "for line in sys.stdin:\n"
        "    events = read_events(Path(sys.argv[1]), int(line), 500)\n"
        "    assert all(e.document.startswith(b'%d' % e.offset) for e in events)\n"
        "    print(len(events), flush=True)\n"
    )
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    ) as reader:
        assert reader.stdin is not None and reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
        for first in range(101, 20_101, 100):
            log.commit(events(first, 100, size=900), 1, 0)
            if first % 1000 == 1:
                reader.stdin.write(f"{first - 50}\n")
                reader.stdin.flush()
                assert int(reader.stdout.readline()) > 0
        reader.stdin.close()
        assert reader.wait() == 0
    # 18 MB were written.
    assert (tmp_path / "data.mdb").stat().st_size < 6 << 20


def test_a_place_after_a_mark_is_found_across_epochs(tmp_path: Path) -> None:
    log = LogFile(tmp_path, Retention())
    log.commit(events(1, 10, epoch=1), 1, 0)
    log.commit(events(11, 10, epoch=2), 2, 0)
    assert log.first_after("n", (0, 0)) == 1
    assert log.first_after("n", (1, 4)) == 5
    assert log.first_after("n", (1, 10)) == 11
    # The end of epoch 1 was lost and its offsets given again: places beyond 10 are missing.
    assert log.first_after("n", (1, 15)) == 11
    assert log.first_after("n", (2, 20)) == 21


def test_a_time_is_found(tmp_path: Path) -> None:
    log = LogFile(tmp_path, Retention())
    log.commit(events(1, 10, arrival=1000), 1, 0)
    assert log.first_at(0) == 1
    assert log.first_at(1005) == 5
    assert log.first_at(9999) == 11


def test_a_full_log_raises_and_takes_nothing_and_goes_on_when_there_is_room(
    tmp_path: Path,
) -> None:
    log = LogFile(tmp_path, Retention(), max_events_bytes=1 << 20)
    log.commit(events(1, 10), 1, 0)
    with pytest.raises(LogUnavailable, match="size limit"):
        log.commit(events(11, 10, size=200_000), 1, 0)
    log.reopen()
    assert log.bounds.last == 10
    log.commit(events(11, 10), 2, 0)
    assert offsets(log) == list(range(1, 21))


def test_marks_and_durables_commit_with_the_events(tmp_path: Path) -> None:
    log = LogFile(tmp_path, Retention())
    commit = events(1, 1)
    commit.marks = [(("a", 7), b"\0" * 16 + b"window")]
    commit.durables = [(b"a\0news", b"stored")]
    commit.clients = [("a", b"newest")]
    log.commit(commit, 1, 0)
    assert log.stored_window(("a", 7)) == b"\0" * 16 + b"window"
    assert log.stored_window(("a", 8)) is None
    assert log.durables() == [(b"a\0news", b"stored")]
    assert log.newest_incarnation("a") == b"newest"
    log.commit(Commit(durables=[(b"a\0news", None)]), 1, 0)
    assert log.durables() == []


def test_unused_marks_are_dropped(tmp_path: Path) -> None:
    log = LogFile(tmp_path, Retention(marks_age_ms=100))
    old, new = (5).to_bytes(8, "big"), (1000).to_bytes(8, "big")
    marks = [(("a", 1), b"\0" * 8 + old), (("b", 1), b"\0" * 8 + new)]
    log.commit(Commit(marks=marks), 1, 0)
    assert log.drop_old(1050) == 1
    assert log.stored_window(("a", 1)) is None
    assert log.stored_window(("b", 1)) is not None


def test_a_file_that_is_no_log_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_bytes(b"something else entirely" * 1000)
    with pytest.raises(LogCorrupt, match=str(tmp_path)):
        LogFile(tmp_path, Retention())


def test_a_folder_that_can_not_be_made_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LogUnavailable, match="file"):
        LogFile(tmp_path / "file" / "log", Retention())


def test_a_log_that_could_not_be_opened_leaves_nothing_open(tmp_path: Path) -> None:
    class OnFullDisk(LogFile):
        @contextmanager
        def _writing(self) -> Iterator[Any]:
            raise LogUnavailable("no space left on device")
            yield

    # The exception keeps the object's files open.
    with pytest.raises(LogUnavailable) as caught:
        OnFullDisk(tmp_path, Retention())
    LogFile(tmp_path, Retention()).close()
    assert caught.value.text == "no space left on device"


def test_offsets_times_and_marks_are_found_within_chunks(tmp_path: Path) -> None:
    log = LogFile(tmp_path, Retention())
    # Fifty make a chunk.
    log.commit(events(1, 120, size=1000), 1, 0)
    log.commit(events(121, 3, epoch=2, size=200_000), 2, 0)
    assert offsets(log, 57, 100) == list(range(57, 124))
    assert log.first_after("n", (1, 119)) == 120
    assert log.first_at(77) == 77
    assert log.position_before(78) == {"n": (1, 77)}
    assert log.position_before(122) == {"n": (2, 121)}
    assert (log.position_before(1), log.position_before(125)) == ({}, {"n": (2, 123)})
    log.close()
    assert LogFile(tmp_path, Retention()).last_arrival == 123
