"""Reads of own events for the archive, each in one transaction."""

from __future__ import annotations

from contextlib import suppress

import lmdb

from broker.archive.chunk_columns import ChunkColumns
from broker.event.place import Mark
from broker.log.chunk_table import AnyChunk
from broker.log.damage import DamageFound
from broker.log.delivered_entries import DeliveredEntries, NotDelivered
from broker.log.logged_event import LoggedEvent
from broker.log.moved_entries import read_changes
from broker.log.stored_chunk import StoredChunk
from broker.log.tables import Tables


def read_columns(
    txn: lmdb.Transaction,
    tables: Tables,
    origin: str,
    after: Mark,
    max_events: int,
    max_bytes: int,
) -> list[ChunkColumns]:
    """Return own events, up to the limits, with the stamps of their delivery.

    The result ends before damage, and before an event that waits for its stamp. Raises
    `DamageFound` or `NotDelivered` if it would begin with it.
    """
    found: list[ChunkColumns] = []
    entries = DeliveredEntries(txn, tables, origin)
    for chunk in tables.origins.chunks_after(txn, origin, after):
        start = chunk.first_after(after)
        if start is None:
            continue
        damage = chunk.first_damage(start)
        most = max_events if damage is None else min(max_events, damage.first - start)
        if isinstance(chunk, StoredChunk) and most > 0:
            columns, is_whole = entries.read_columns(chunk, start, most)
            if columns.count:
                found.append(columns)
            if not found:
                raise NotDelivered
            if not is_whole:
                break
            max_events -= columns.count
            max_bytes -= len(columns.records) + len(columns.documents)
        if damage is not None and not found:
            raise DamageFound(damage)
        if damage is not None or max_events <= 0 or max_bytes <= 0:
            break
    return found


def read_moved(
    txn: lmdb.Transaction, tables: Tables, origin: str, after: int
) -> tuple[list[LoggedEvent], int]:
    """Return own events whose order entries have changed, and the key of the last change.

    `after` is the key of the last known change; 0 before the first.
    """
    found: dict[int, LoggedEvent] = {}
    changes = list(read_changes(txn, tables, after))
    chunk: AnyChunk | None = None
    with tables.chunks.cursor(txn) as cursor:
        for serial in (each for _, serials in changes for each in serials):
            if chunk is None or not chunk.first <= serial <= chunk.last:
                chunk = tables.chunks.chunk_holding(txn, cursor, serial)
            if chunk is None or chunk.origin != origin or serial < chunk.first:
                # Retention has removed it, or it is no own event.
                continue
            with suppress(DamageFound):
                found[serial] = next(chunk.events_from(serial))
    return list(found.values()), changes[-1][0] if changes else after
