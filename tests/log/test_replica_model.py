"""The stored span of a replica equals its stored events."""

from __future__ import annotations

from pathlib import Path

from broker.log.commit import Commit, ReplicaBatch, Retention
from broker.log.log_file import LogFile
from broker.log.logged_event import LoggedEvent
from broker.log.replica_table import ReplicaSpan


def copies(origin: str, first: int, count: int, size: int = 1000) -> list[LoggedEvent]:
    return [
        LoggedEvent(1, n, n, 0, b"\x90", b"x" * size, origin, 0)
        for n in range(first, first + count)
    ]


def keep(log: LogFile, origin: str, after: tuple[int, int], events: list[LoggedEvent]) -> None:
    log.commit(Commit(replicas=[ReplicaBatch(origin, after, events[-1].mark, events)]), 1, 0)


def test_copies_that_come_again_take_nothing_away(tmp_path: Path) -> None:
    """A ReplicaRequest arrives during a commit of copies: the owner continues at the end before
    it."""
    log = LogFile(tmp_path, Retention(), sync=False)
    keep(log, "far", (0, 0), copies("far", 1, 10))
    keep(log, "far", (1, 10), copies("far", 11, 10))
    keep(log, "far", (1, 10), copies("far", 11, 15))
    assert log.replica_spans == {"far": ReplicaSpan((0, 0), (1, 25))}
    assert [e.offset for e in log.read_replica("far", (0, 0), 99, 1 << 30)] == list(range(1, 26))
    keep(log, "far", (1, 10), copies("far", 11, 5))
    assert log.replica_spans == {"far": ReplicaSpan((0, 0), (1, 25))}
    assert [e.offset for e in log.read_replica("far", (0, 0), 99, 1 << 30)] == list(range(1, 26))
    log.close()


def test_a_new_replica_stays_beside_a_large_one(tmp_path: Path) -> None:
    log = LogFile(tmp_path, Retention(max_bytes=1 << 20), sync=False, max_events_bytes=64 << 20)
    after = (0, 0)
    for first in range(1, 1000, 20):
        events = copies("one", first, 20)
        keep(log, "one", after, events)
        after = events[-1].mark
    events = [
        LoggedEvent(1, n, 5000 + n, 0, b"\x90", b"x" * 1000, "other", 0) for n in range(1, 21)
    ]
    keep(log, "other", (0, 0), events)
    # ReplicaAck(other, (1, 20)) is sent now.
    assert [e.offset for e in log.read_replica("other", (0, 0), 99, 1 << 30)] == list(range(1, 21))
    assert log.replica_spans["other"] == ReplicaSpan((0, 0), (1, 20))


def test_copies_as_old_as_events_may_be_go_and_with_the_last_one_the_span(tmp_path: Path) -> None:
    log = LogFile(tmp_path, Retention(max_age_ms=1000), sync=False)
    keep(log, "one", (0, 0), copies("one", 1, 5))
    keep(log, "other", (0, 0), copies("other", 2001, 5))
    keep(log, "other", (1, 2005), copies("other", 3001, 5))
    log.drop_old(3010)
    assert log.replica_spans == {"other": ReplicaSpan((1, 2005), (1, 3005))}
    assert log.read_replica("one", (0, 0), 99, 1 << 30) == []
    keep(log, "one", (1, 5), copies("one", 6, 5))
    assert log.replica_spans["one"] == ReplicaSpan((1, 5), (1, 10))
    log.close()
    again = LogFile(tmp_path, Retention(), sync=False)
    assert again.replica_spans["other"] == ReplicaSpan((1, 2005), (1, 3005))
    again.close()
