"""Order entries of logged events whose messages have moved in the order of their group.

Two sequencers may number one message (`broker.transport.order.Move`). Then its event in this log,
and the copy of an own one, get the place that counts. So the history of each site, sorted by stamp,
is one transcript.

The table `moved` has a key u64 for each commit with such changes, and the serial u64 of each
changed event: the archive may have it with its earlier place.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence

import attrs
import lmdb

from broker.event.annotation import annotation_of, with_annotation
from broker.event.order_entry import OrderEntry, decode_entry_fields, encode_order_entry
from broker.event.site_notice import MovedMessage
from broker.log.checked_table import CheckedTable
from broker.log.chunk import decode_key, encode_key
from broker.log.commit import MovedKey
from broker.log.stored_chunk import StoredChunk, encode_stored_chunk
from broker.log.tables import Tables

#: Events at the end of the log among which those of moved messages are looked for. A group
#: remembers fewer deliveries.
MOST_SEARCHED = 20_000
#: Keys in the table; the oldest go.
MOST_CHANGES = 256
_SERIAL = struct.Struct(">Q")


def move_entries(
    txn: lmdb.Transaction, tables: Tables, moved: Mapping[MovedKey, MovedMessage]
) -> None:
    """Change the entries of events at the end of the log."""
    left = MOST_SEARCHED
    serials: list[int] = []
    with tables.chunks.cursor(txn) as cursor:
        more = cursor.last()
        while more and left > 0:
            chunk = tables.chunks.chunk_at(txn, cursor)
            left -= chunk.last - chunk.first + 1
            if isinstance(chunk, StoredChunk) and (records := _find_records(chunk, moved)):
                cursor.put(chunk.key, _with_records(chunk, records))
                serials += records
            more = cursor.prev()
    assert tables.moved is not None
    if serials:
        _add_change(txn, tables.moved, sorted(serials))


def read_changes(
    txn: lmdb.Transaction, tables: Tables, after: int
) -> Iterator[tuple[int, Sequence[int]]]:
    """Yield the key and the serials of each change behind a key."""
    for key, value in () if tables.moved is None else tables.moved.items(txn):
        if value is not None and (number := decode_key(key)) > after:
            yield number, [serial for (serial,) in _SERIAL.iter_unpack(value)]


def _find_records(chunk: StoredChunk, moved: Mapping[MovedKey, MovedMessage]) -> dict[int, bytes]:
    """Return the new record of each event of a moved message, by its serial."""
    found: dict[int, bytes] = {}
    for serial, record in chunk.records():
        fields = decode_entry_fields(annotation_of(record))
        message = None if fields is None else moved.get(fields[:4])
        if fields is None or message is None:
            continue
        tie = "" if message.tie == message.site else message.tie
        entry = attrs.evolve(
            OrderEntry(*fields),
            stamp=message.stamp,
            tie=tie,
            is_late=message.is_late,
            before=message.before,
            after=message.after,
        )
        changed = with_annotation(record, encode_order_entry(entry))
        if changed != record:
            found[serial] = changed
    return found


def _with_records(chunk: StoredChunk, records: Mapping[int, bytes]) -> bytes:
    """Return a chunk with other records. Damaged events stay damaged."""
    events, failing = chunk.all_events(), {}
    for index, event in enumerate(events):
        checksum = chunk.checksum_at(event.serial)
        if checksum is not None and not chunk.is_intact(event):
            failing[index] = checksum
        else:
            event.record = records.get(event.serial, event.record)
    return encode_stored_chunk(chunk.key, events, failing)


def _add_change(txn: lmdb.Transaction, table: CheckedTable, serials: Sequence[int]) -> None:
    keys = [key for key, _ in table.items(txn)]
    newest = decode_key(keys[-1]) if keys else 0
    table.put(txn, encode_key(newest + 1), b"".join(map(_SERIAL.pack, serials)))
    for key in keys[: max(0, len(keys) + 1 - MOST_CHANGES)]:
        table.delete(txn, key)
