"""Order entries of logged events whose messages have moved (`broker.log.moved_entries`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.archive.chunk_columns import chunks_to_batch
from broker.event.annotation import annotation_of, with_annotation
from broker.event.flow import CarryingPatterns, make_flow
from broker.event.order_entry import OrderEntry, decode_order_entry, encode_order_entry
from broker.event.site_notice import MovedMessage
from broker.event.stream import StreamPattern
from broker.log import archive_reads, moved_entries
from broker.log.commit import Commit, Retention
from broker.log.damage import DamageFound
from broker.log.delivered_entries import NotDelivered
from broker.log.log_file import LogFile
from broker.log.logged_event import LoggedEvent
from tests.log.bit_damage import damage_log, flipped, read_past_damage
from tests.log.test_log_file import RECORD

PATTERNS = CarryingPatterns((StreamPattern.parse("s"),))


def entry_of(number: int, stamp: int | None = None, stack: str = "ops") -> OrderEntry:
    return OrderEntry(stack, "b", 1, number, stamp, "sequencer")


def logged(
    serial: int, entry: OrderEntry | None, offset: int, origin: str = "n", epoch: int = 1
) -> LoggedEvent:
    record = RECORD if entry is None else with_annotation(RECORD, encode_order_entry(entry))
    return LoggedEvent(epoch, offset, 1, 1, record, b"%d" % offset, origin, serial)


def move(log: LogFile, *moves: MovedMessage, stack: str = "ops", epoch: int = 1) -> None:
    moved = {(stack, each.site, each.incarnation, each.number): each for each in moves}
    log.commit(Commit(moved=moved), epoch, 0)


def entries(log: LogFile, start: int = 1) -> list[OrderEntry | None]:
    return [
        decode_order_entry(annotation_of(each.record)) for each in log.read(start, 1000, 1 << 30)
    ]


def changes(log: LogFile) -> list[tuple[int, list[int]]]:
    with log._reading() as txn:
        return [(key, [*each]) for key, each in moved_entries.read_changes(txn, log._tables, 0)]


def test_an_event_and_the_copy_of_an_own_one_get_the_place(tmp_path: Path) -> None:
    log = LogFile(tmp_path, Retention())
    kept = [entry_of(1, 7), entry_of(3, 9, stack="other"), None]
    log.commit(
        Commit(
            [
                *(logged(serial, entry, serial) for serial, entry in enumerate(kept, 1)),
                logged(4, entry_of(3, None), 4),
                logged(5, entry_of(3, 9), 4, "n/s"),
            ]
        ),
        1,
        0,
    )
    move(log, MovedMessage("b", 1, 3, 5, "a", True, ("b", 1, 2), ("b", 1, 1)))
    neighbours = ("b", 1, 2), ("b", 1, 1)
    moved = OrderEntry(
        *("ops", "b", 1, 3, 5, "sequencer"), 0, True, *neighbours, is_recovered=False, tie="a"
    )
    assert entries(log) == [*kept, moved, moved]
    assert [each.document for each in log.read(1, 9, 1 << 20)] == [b"1", b"2", b"3", b"4", b"4"]
    assert changes(log) == [(1, [4, 5])]
    move(log, MovedMessage("b", 1, 3, 2, "b"), MovedMessage("b", 1, 9, 1, "b"))
    assert entries(log)[3:] == [entry_of(3, 2)] * 2
    # Nothing changes.
    move(log, MovedMessage("b", 1, 3, 2, "b"), MovedMessage("b", 1, 9, 1, "b"))
    assert changes(log) == [(1, [4, 5]), (2, [4, 5])]
    log.close()
    log = LogFile(tmp_path, Retention())
    assert entries(log)[3:] == [entry_of(3, 2)] * 2 and not log.startup_repairs


def test_damaged_events_of_a_changed_chunk_stay_damaged(tmp_path: Path) -> None:
    log = LogFile(tmp_path, Retention())
    log.commit(Commit([logged(each, entry_of(each, 8 + each), each) for each in (1, 2, 3)]), 1, 0)
    damage_log(log, "events", lambda value: flipped(value, 8 * (len(value) - 2)))
    with pytest.raises(DamageFound):
        log.read(2, 9, 1 << 20)
    move(log, *(MovedMessage("b", 1, number, number, "b") for number in (1, 2, 3)))
    events, (damage,) = read_past_damage(log)
    assert [event.offset for event in events] == [1, 3] and (damage.first, damage.last) == (2, 2)
    assert entries(log, 3) == [entry_of(3, 3)]


def test_the_search_and_the_changes_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moved_entries, "MOST_SEARCHED", 2)
    monkeypatch.setattr(moved_entries, "MOST_CHANGES", 3)
    log = LogFile(tmp_path, Retention())
    for number in (1, 2, 3):
        log.commit(Commit([logged(number, entry_of(number, 10), number)]), 1, 0)
    for stamp in range(9, 4, -1):
        move(log, *(MovedMessage("b", 1, number, stamp, "b") for number in (1, 2, 3)))
    assert entries(log) == [entry_of(1, 10), entry_of(2, 5), entry_of(3, 5)]
    assert changes(log) == [(key, [2, 3]) for key in (3, 4, 5)]


# ---------------------------------------------------------------- reads for the archive


@pytest.fixture
def ordered(tmp_path: Path) -> LogFile:
    """The log of a node whose stream `s` has an order; events 1 and 2 are committed."""
    log = LogFile(tmp_path, Retention())
    log.update_flows(PATTERNS, PATTERNS)
    epoch, origin = log.bounds.epoch, log.origin
    log.commit(
        Commit(
            [logged(each, entry_of(each), each, origin, epoch) for each in (1, 2)],
            covered={origin: (epoch, 2)},
        ),
        epoch,
        0,
    )
    return log


def copy(log: LogFile, offset: int, stamp: int, serial: int) -> None:
    flow, epoch = make_flow(log.origin, "s"), log.bounds.epoch
    event = logged(serial, entry_of(offset, stamp), offset, flow, epoch)
    log.commit(Commit([event], covered={flow: (epoch, offset)}), epoch, 0)


def archived(log: LogFile, after: int = 0) -> list[tuple[int, int | None]]:
    """Return offset and stamp of the next events for the archive."""
    found = []
    with log._reading() as txn:
        place = log.bounds.epoch, after
        for columns in archive_reads.read_columns(txn, log._tables, log.origin, place, 9, 1 << 20):
            rows = chunks_to_batch([columns])
            offsets, stamps = (rows.column(name).to_pylist() for name in ("offset", "stack_order"))
            found += list(zip(offsets, stamps, strict=True))
    return found


def test_the_archive_gets_an_event_with_the_stamp_of_its_delivery(ordered: LogFile) -> None:
    with pytest.raises(NotDelivered):
        archived(ordered)
    copy(ordered, 1, 40, 3)
    assert archived(ordered) == [(1, 40)]
    copy(ordered, 2, 41, 4)
    assert archived(ordered) == [(1, 40), (2, 41)] and archived(ordered, 1) == [(2, 41)]


def test_the_archive_does_not_wait_for_a_copy_that_retention_has_removed(ordered: LogFile) -> None:
    flow = make_flow(ordered.origin, "s")
    ordered.commit(Commit(covered={flow: (ordered.bounds.epoch, 1)}), ordered.bounds.epoch, 0)
    assert archived(ordered) == [(1, None)]


def test_the_archive_gets_own_events_that_have_moved(ordered: LogFile) -> None:
    copy(ordered, 1, 40, 3)
    move(ordered, MovedMessage("b", 1, 1, 20, "b"), epoch=ordered.bounds.epoch)

    def read_moved(after: int) -> tuple[list[tuple[int, OrderEntry | None]], int]:
        with ordered._reading() as txn:
            found, key = archive_reads.read_moved(txn, ordered._tables, ordered.origin, after)
        rows = [(each.offset, decode_order_entry(annotation_of(each.record))) for each in found]
        return rows, key

    assert read_moved(0) == ([(1, entry_of(1, 20))], 1)
    assert read_moved(1) == ([], 1)
