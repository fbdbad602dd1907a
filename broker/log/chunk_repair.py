"""Repair of damaged chunks with events of other sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import lmdb

from broker.event.annotation import annotation_of, with_annotation
from broker.event.place import Mark
from broker.log.checksum import event_checksum
from broker.log.chunk import encode_key
from broker.log.chunk_places import ChunkPlaces
from broker.log.chunk_table import NEVER_OLD
from broker.log.damage import Damage, DamageKind
from broker.log.logged_event import LoggedEvent
from broker.log.replica_table import REPLICA_TABLE
from broker.log.stored_chunk import HeadDamaged, StoredChunk, encode_stored_chunk
from broker.log.tables import Tables

#: Fails for each event: only its place is known.
UNKNOWN_CHECKSUM = event_checksum(b"", b"") ^ 1
_PLACEHOLDERS_PER_CHUNK = 1_000


def repair_chunk(
    txn: lmdb.Transaction, tables: Tables, damage: Damage, events: Sequence[LoggedEvent]
) -> Damage | None:
    """Write `events` at their damaged places; return the remaining damage."""
    table = tables.replicas.table if damage.table == REPLICA_TABLE else tables.events
    by_offset = {event.offset: event for event in events if event.origin == damage.origin}
    stored = txn.get(damage.key, db=table)
    first = 0 if damage.table == REPLICA_TABLE else int.from_bytes(damage.key, "big")
    if stored is not None:
        try:
            chunk = StoredChunk(damage.table, damage.key, first, stored)
        except HeadDamaged:
            pass
        else:
            restored = _restore_events(chunk, by_offset)
            return (
                _write_chunk(txn, tables, damage, restored, first)
                if restored
                else _remaining_damage(chunk, damage)
            )
    if damage.kind is DamageKind.EVENT or not damage.marks or not by_offset:
        # Retention may have removed it.
        return damage if stored is not None or damage.kind is DamageKind.MISSING else None
    return _write_chunk(txn, tables, damage, _recreate_chunk(tables, txn, damage, by_offset), first)


def append_placeholders(
    txn: lmdb.Transaction, tables: Tables, origin: str, after: Mark, upto: Mark
) -> int:
    """Append placeholders for missing own events in (after, upto]: readers find them as damage.
    Return their number."""
    with tables.chunks.cursor(txn) as cursor:
        newest = tables.chunks.last_chunk(txn, cursor)
    serial, arrival = 1, 0
    if newest is not None:
        serial, arrival = newest.last + 1, newest.arrival_at(newest.last)
    offsets = range(after[1] + 1, upto[1] + 1)
    for start in range(0, len(offsets), _PLACEHOLDERS_PER_CHUNK):
        marks = [(upto[0], offset) for offset in offsets[start : start + _PLACEHOLDERS_PER_CHUNK]]
        _put_placeholders(txn, tables, origin, marks, serial, arrival)
        serial += len(marks)
    return len(offsets)


def write_placeholder(txn: lmdb.Transaction, tables: Tables, places: ChunkPlaces) -> None:
    """Write a placeholder for a chunk of which only the places are known."""
    if places.count:
        arrival = (
            tables.chunks.unreadable_chunk(txn, places.serial, DamageKind.MISSING).arrival_at(0)
            % NEVER_OLD
        )
        _put_placeholders(txn, tables, places.origin, places.marks, places.serial, arrival)


def _put_placeholders(
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
    failing = dict.fromkeys(range(len(part)), UNKNOWN_CHECKSUM)
    txn.put(key, encode_stored_chunk(key, part, failing), db=tables.events)
    tables.origins.add_chunk(txn, part)


def _remaining_damage(chunk: StoredChunk, damage: Damage) -> Damage | None:
    for each in chunk.damages():
        if damage.first <= each.last and each.first <= damage.last:
            return each
    return None


def _write_chunk(
    txn: lmdb.Transaction,
    tables: Tables,
    damage: Damage,
    restored: tuple[list[LoggedEvent], dict[int, int]],
    first: int,
) -> Damage | None:
    events, failing = restored
    value = encode_stored_chunk(damage.key, events, failing)
    if damage.table == REPLICA_TABLE:
        txn.put(damage.key, value, db=tables.replicas.table)
    else:
        txn.put(damage.key, value, db=tables.events)
        tables.origins.add_chunk(txn, events)
    return _remaining_damage(StoredChunk(damage.table, damage.key, first, value), damage)


def _restore_events(
    chunk: StoredChunk, by_offset: Mapping[int, LoggedEvent]
) -> tuple[list[LoggedEvent], dict[int, int]] | None:
    """Replace damaged events by equal ones; None if no source has any."""
    events, failing = chunk.all_events(), {}
    replaced = False
    for index, event in enumerate(events):
        if chunk.is_intact(event):
            continue
        checksum = chunk.checksum_at(event.serial)
        found = by_offset.get(event.offset)
        if found is not None and checksum == UNKNOWN_CHECKSUM:
            event.epoch, event.level = found.epoch, found.level
            event.record, event.document = found.record, found.document
            replaced = True
        elif found is not None and (record := _find_record(event, found, checksum)):
            event.record, event.document = record, found.document
            replaced = True
        elif checksum is not None:
            failing[index] = checksum
    return (events, failing) if replaced else None


def _find_record(damaged: LoggedEvent, found: LoggedEvent, checksum: int | None) -> bytes:
    """Return the record that is equal to the lost one; empty if there is none.

    Another node may have another annotation.
    """
    own = with_annotation(found.record, annotation_of(damaged.record))
    return next(
        (each for each in (found.record, own) if event_checksum(each, found.document) == checksum),
        b"",
    )


def _recreate_chunk(
    tables: Tables, txn: lmdb.Transaction, damage: Damage, by_offset: Mapping[int, LoggedEvent]
) -> tuple[list[LoggedEvent], dict[int, int]]:
    """Return events for a lost head; those that no source has stay damaged."""
    # Other nodes logged them at other times.
    low, high = 0, NEVER_OLD - 1
    if damage.table != REPLICA_TABLE:
        low, high = tables.chunks.arrivals_around(txn, damage.first)
    events, failing = [], {}
    mark: Mark
    for index, mark in enumerate(damage.marks):
        found = by_offset.get(mark[1])
        if found is None:
            event = LoggedEvent(*mark, 0, 0, b"", b"", damage.origin, damage.first + index)
            failing[index] = UNKNOWN_CHECKSUM
        else:
            event = attrs.evolve(found, serial=damage.first + index)
        event.arrival = low = max(low, min(event.arrival, high))
        events.append(event)
    _fill_epochs(events, failing)
    return events, failing


def _fill_epochs(events: list[LoggedEvent], failing: Mapping[int, int]) -> None:
    """Epochs rise with offsets: take an unknown one from before."""
    for index, event in enumerate(events):
        if index and index in failing:
            event.epoch = min(event.epoch, max(events[index - 1].epoch, 1))
