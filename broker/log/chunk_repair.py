"""Damaged events in the log's file, written again from another source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import lmdb

from broker.event.place import Mark
from broker.log.checksum import event_checksum
from broker.log.chunk_table import NEVER_OLD
from broker.log.chunk import encode_key
from broker.log.damage import Damage, Kind
from broker.log.replica_table import KEPT
from broker.log.chunk_places import Places
from broker.log.logged_event import LoggedEvent
from broker.log.stored_chunk import HeadDamaged, StoredChunk, encode_stored
from broker.log.tables import Tables

#: The checksum of an event of which nothing but its place is known: it always fails.
UNKNOWN = event_checksum(b"", b"") ^ 1
#: Stand-ins in one chunk.
_HELD = 1_000


def rewrite(
    txn: lmdb.Transaction, tables: Tables, damage: Damage, events: Sequence[LoggedEvent]
) -> Damage | None:
    """Write `events` where they belong within the damage; the damage that is left."""
    table = tables.kept.table if damage.table == KEPT else tables.events
    by_offset = {event.offset: event for event in events if event.origin == damage.origin}
    stored = txn.get(damage.key, db=table)
    first = 0 if damage.table == KEPT else int.from_bytes(damage.key, "big")
    if stored is not None:
        try:
            chunk = StoredChunk(damage.table, damage.key, first, stored)
        except HeadDamaged:
            pass
        else:
            written = _restored(chunk, by_offset)
            return _put(txn, tables, damage, written, first) if written else _left(chunk, damage)
    if damage.kind is Kind.EVENT or not damage.marks or not by_offset:
        # Retention may have taken it meanwhile.
        return damage if stored is not None or damage.kind is Kind.MISSING else None
    return _put(txn, tables, damage, _made_anew(tables, txn, damage, by_offset), first)


def hold_places(txn: lmdb.Transaction, tables: Tables, origin: str, after: Mark, upto: Mark) -> int:
    """Append stand-ins for the own events behind `after` and up to `upto`, which were covered and
    are not there: readers meet them as damage. Returns their number."""
    with tables.chunks.cursor(txn) as cursor:
        newest = tables.chunks.last_of(txn, cursor)
    serial, arrival = 1, 0
    if newest is not None:
        serial, arrival = newest.last + 1, newest.arrival(newest.last)
    offsets = range(after[1] + 1, upto[1] + 1)
    for start in range(0, len(offsets), _HELD):
        marks = [(upto[0], offset) for offset in offsets[start : start + _HELD]]
        _hold(txn, tables, origin, marks, serial, arrival)
        serial += len(marks)
    return len(offsets)


def hold_chunk(txn: lmdb.Transaction, tables: Tables, places: Places) -> None:
    """Write a stand-in for a chunk of which the places alone are there."""
    if places.count:
        arrival = tables.chunks.lost(txn, places.serial, Kind.MISSING).arrival(0) % NEVER_OLD
        _hold(txn, tables, places.origin, places.marks, places.serial, arrival)


def _hold(
    txn: lmdb.Transaction,
    tables: Tables,
    origin: str,
    marks: Sequence[Mark],
    serial: int,
    arrival: int,
) -> None:
    part = [
        LoggedEvent(epoch, offset, arrival, 0, b"", b"", origin, serial + index)
        for index, (epoch, offset) in enumerate(marks)
    ]
    key = encode_key(serial)
    failing = dict.fromkeys(range(len(part)), UNKNOWN)
    txn.put(key, encode_stored(key, part, failing), db=tables.events)
    tables.origins.add(txn, part)


def _left(chunk: StoredChunk, damage: Damage) -> Damage | None:
    """The damage of a chunk within the serials of `damage`."""
    for each in chunk.damages():
        if damage.first <= each.last and each.first <= damage.last:
            return each
    return None


def _put(
    txn: lmdb.Transaction,
    tables: Tables,
    damage: Damage,
    written: tuple[list[LoggedEvent], dict[int, int]],
    first: int,
) -> Damage | None:
    events, failing = written
    value = encode_stored(damage.key, events, failing)
    if damage.table == KEPT:
        txn.put(damage.key, value, db=tables.kept.table)
    else:
        txn.put(damage.key, value, db=tables.events)
        tables.origins.add(txn, events)
    return _left(StoredChunk(damage.table, damage.key, first, value), damage)


def _restored(
    chunk: StoredChunk, by_offset: Mapping[int, LoggedEvent]
) -> tuple[list[LoggedEvent], dict[int, int]] | None:
    """The events of a chunk with an intact head, damaged ones replaced where a source has the same
    bytes; None if it has none of them."""
    events, failing = chunk.all_events(), {}
    replaced = False
    for index, event in enumerate(events):
        if chunk.is_intact(event):
            continue
        checksum = chunk.checksum(event.serial)
        found = by_offset.get(event.offset)
        if found is not None and checksum == UNKNOWN:
            event.epoch, event.level = found.epoch, found.level
            event.record, event.document = found.record, found.document
            replaced = True
        elif found is not None and checksum == event_checksum(found.record, found.document):
            event.record, event.document = found.record, found.document
            replaced = True
        elif checksum is not None:
            failing[index] = checksum
    return (events, failing) if replaced else None


def _made_anew(
    tables: Tables, txn: lmdb.Transaction, damage: Damage, by_offset: Mapping[int, LoggedEvent]
) -> tuple[list[LoggedEvent], dict[int, int]]:
    """A chunk whose head is lost, with what a source has; the rest stays damaged."""
    # Other nodes have logged them at other times; here times rise with serials.
    low, high = 0, NEVER_OLD - 1
    if damage.table != KEPT:
        low, high = tables.chunks.arrivals_around(txn, damage.first)
    events, failing = [], {}
    mark: Mark
    for index, mark in enumerate(damage.marks):
        found = by_offset.get(mark[1])
        if found is None:
            event = LoggedEvent(*mark, 0, 0, b"", b"", damage.origin, damage.first + index)
            failing[index] = UNKNOWN
        else:
            event = attrs.evolve(found, serial=damage.first + index)
        event.arrival = low = max(low, min(event.arrival, high))
        events.append(event)
    _fill_epochs(events, failing)
    return events, failing


def _fill_epochs(events: list[LoggedEvent], failing: Mapping[int, int]) -> None:
    """An unknown epoch is that of the event before: epochs rise with offsets."""
    for index, event in enumerate(events):
        if index and index in failing:
            event.epoch = min(event.epoch, max(events[index - 1].epoch, 1))
