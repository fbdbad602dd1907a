from __future__ import annotations

from pathlib import Path
from random import Random

import attrs
import pytest

from broker.event.place import Mark
from broker.log.commit import Commit, ReplicaBatch, Retention
from broker.log.log_file import LogFile
from broker.log.logged_event import LoggedEvent
from broker.log.replica_table import ReplicaSpan


def copies(first: int, count: int, size: int = 300) -> list[LoggedEvent]:
    return [
        LoggedEvent(1 + n // 500, n, n, 0, b"\x90", b"x" * size, "far", 0)
        for n in range(first, first + count)
    ]


def keep(log: LogFile, after: Mark, events: list[LoggedEvent], upto: Mark | None = None) -> None:
    log.commit(Commit(replicas=[ReplicaBatch("far", after, upto or events[-1].mark, events)]), 1, 0)


@pytest.mark.parametrize("seed", range(4))
def test_a_replica_is_read_from_any_mark(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    log = LogFile(tmp_path, Retention(), sync=False)
    after, everything = (0, 0), list[LoggedEvent]()
    for _ in range(30):
        new = copies(len(everything) + 1, random.randrange(1, 100))
        keep(log, after, new)
        after = new[-1].mark
        everything += new
    assert log.replica_spans == {"far": ReplicaSpan((0, 0), after)}
    assert log.read(0, 10, 1 << 20) == [], "none of it is in the log"
    for _ in range(100):
        mark = (random.randrange(0, 6), random.randrange(0, 2000))
        most = random.randrange(1, 200)
        behind = [event.place for event in everything if event.mark > mark][:most]
        assert [event.place for event in log.read_replica("far", mark, most, 1 << 40)] == behind
    assert log.read_replica("other", (0, 0), 10, 1 << 20) == []
    log.close()
    assert LogFile(tmp_path, Retention(), sync=False).replica_spans == {
        "far": ReplicaSpan((0, 0), after)
    }


def test_a_replica_that_is_not_continued_starts_anew(tmp_path: Path) -> None:
    log = LogFile(tmp_path, Retention(), sync=False)
    keep(log, (0, 0), copies(1, 10))
    keep(log, (1, 20), copies(21, 5))
    assert log.replica_spans == {"far": ReplicaSpan((1, 20), (1, 25))}
    assert [e.offset for e in log.read_replica("far", (0, 0), 100, 1 << 20)] == list(range(21, 26))
    keep(log, (1, 25), [], (1, 40))
    assert log.replica_spans == {"far": ReplicaSpan((1, 20), (1, 40))}


def kept_span(log: LogFile) -> ReplicaSpan:
    """Of 5,000 copies of 900 bytes."""
    after: Mark = (0, 0)
    for first in range(1, 5000, 100):
        new = copies(first, 100, 900)
        keep(log, after, new)
        after = new[-1].mark
    return log.replica_spans["far"]


def test_the_oldest_replicas_make_room_and_the_span_shrinks(tmp_path: Path) -> None:
    log = LogFile(tmp_path, Retention(max_bytes=1 << 20), sync=False)
    span = kept_span(log)
    read = log.read_replica("far", (0, 0), 10_000, 1 << 30)
    assert span.upto == (11, 5000) and (0, 0) < span.after < span.upto
    assert read[0].mark > span.after and len(read) == span.upto[1] - span.after[1]
    assert 200 < len(read) < 1000


def test_unarchived_replicas_stay_while_there_is_room(tmp_path: Path) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    log = LogFile(large, Retention(max_bytes=1 << 20, unarchived_bytes=16 << 20), sync=False)
    span = kept_span(log)
    assert span.after == (0, 0)
    log.archive_hold.archived_replicas = {"far": (5, 2000)}
    keep(log, span.upto, copies(5001, 1, 900))
    # Archived copies make room.
    assert log.replica_spans["far"].after >= (5, 2000)
    log = LogFile(small, Retention(max_bytes=1 << 20, unarchived_bytes=2 << 20), sync=False)
    span = kept_span(log)
    assert 700 < span.upto[1] - span.after[1] < 1500


def test_archived_copies_of_another_origin_go_before_older_ones(tmp_path: Path) -> None:
    log = LogFile(tmp_path, Retention(max_bytes=1 << 20, unarchived_bytes=16 << 20), sync=False)
    keep(log, (0, 0), copies(1, 400, 900))
    log.archive_hold.archived_replicas = {"other": (9, 9999)}
    after: Mark = (0, 0)
    for first in range(1, 1000, 100):
        new = [attrs.evolve(event, origin="other") for event in copies(first, 100, 900)]
        log.commit(Commit(replicas=[ReplicaBatch("other", after, new[-1].mark, new)]), 1, 0)
        after = new[-1].mark
    assert log.replica_spans["far"].after == (0, 0)
    assert log.replica_spans["other"].after > (0, 0)
