"""The chunks of each origin, and the marks up to which the log covers it.

Three kinds of entry, with big-endian integers:

- `c` origin -> `epoch u32, offset u64`: the log is complete up to this mark;
- `s` origin -> `epoch u32, offset u64`: from after this mark on;
- `p` origin NUL `epoch u32, offset u64`: the places of a chunk that begins so (see `chunk_places`).

The first two are checked and have a second copy (see `checked_table`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import lmdb

from broker.event.place import Mark
from broker.log.checked_table import CheckedTable
from broker.log.checksum import ValueDamaged
from broker.log.chunk import KEY_BYTES, decode_key
from broker.log.chunk_places import (
    PLACES_PREFIX,
    ChunkPlaces,
    all_places,
    decode_places,
    encode_places,
    places_key,
    places_prefix,
)
from broker.log.chunk_table import AnyChunk, ChunkTable
from broker.log.damage import LogDamaged
from broker.log.logged_event import LoggedEvent
from broker.log.stored_chunk import StoredChunk

_MARK = struct.Struct(">IQ")
_COVERED = b"c"
_SINCE = b"s"


class OriginTable:
    def __init__(self, table: Any, copies: Any, chunks: ChunkTable) -> None:
        self._table = table
        self._chunks = chunks
        self._checked_entries = CheckedTable(b"o", table, copies, is_rising=True)

    def add_chunk(self, txn: lmdb.Transaction, chunk: Sequence[LoggedEvent]) -> None:
        first = chunk[0]
        key = places_key(first.origin, (first.epoch, first.offset))
        txn.put(key, encode_places(key, chunk), db=self._table)

    def remove_chunk(self, txn: lmdb.Transaction, chunk: AnyChunk) -> dict[str, Mark]:
        """Return the mark after which its origin, or each candidate for it, begins then."""
        if chunk.origin:
            txn.delete(places_key(chunk.origin, chunk.mark_at(chunk.first)), db=self._table)
            begins = {chunk.origin: chunk.mark_at(chunk.last)}
        else:
            assert not isinstance(chunk, StoredChunk)
            begins = {span.origin: span.upto for span in chunk.damage.spans}
        for origin, mark in begins.items():
            self.set_beginning(txn, origin, mark)
        return begins

    def set_beginning(self, txn: lmdb.Transaction, origin: str, mark: Mark) -> None:
        key = _SINCE + origin.encode()
        known = self._checked_entries.get_or_none(txn, key)
        if known is None or _unpack(known) < mark:
            self._checked_entries.put(txn, key, _MARK.pack(*mark))

    def set_covered(self, txn: lmdb.Transaction, origin: str, mark: Mark) -> None:
        self._checked_entries.put(txn, _COVERED + origin.encode(), _MARK.pack(*mark))

    def covered(self, txn: lmdb.Transaction) -> dict[str, Mark]:
        """Return the covered marks: at least the last event, if an entry is damaged or was left by
        a lost write."""
        marks = self._marks(txn, _COVERED, self.last_place)
        return {origin: max(mark, self.last_place(txn, origin)) for origin, mark in marks.items()}

    def begins_after(self, txn: lmdb.Transaction) -> dict[str, Mark]:
        """Return the marks after which origins begin; without an intact entry the place before the
        first event."""
        return self._marks(txn, _SINCE, self._before_first)

    def _marks(self, txn: lmdb.Transaction, kind: bytes, otherwise: Any) -> dict[str, Mark]:
        found: dict[str, Mark] = {}
        for key, value in self._checked_entries.items(txn, kind):
            try:
                origin = key[1:].decode()
            except UnicodeDecodeError:
                continue
            found[origin] = otherwise(txn, origin) if value is None else _unpack(value)
        return found

    def last_place(self, txn: lmdb.Transaction, origin: str) -> Mark:
        with txn.cursor(db=self._table) as cursor:
            prefix = places_prefix(origin)
            more = cursor.set_range(prefix + b"\xff" * 13)
            if (cursor.prev() if more else cursor.last()) and bytes(cursor.key()).startswith(
                prefix
            ):
                with self._chunks.cursor(txn) as events:
                    chunk = self._chunk(txn, events, cursor)
                    return chunk.mark_at(chunk.last)
        return (0, 0)

    def _before_first(self, txn: lmdb.Transaction, origin: str) -> Mark:
        for chunk in self.chunks_after(txn, origin, (0, 0)):
            epoch, offset = chunk.mark_at(chunk.first)
            return (epoch, offset - 1)
        return self.covered(txn).get(origin, (0, 0))

    def first_serial_after(self, txn: lmdb.Transaction, origin: str, mark: Mark) -> int | None:
        """Return None without such an event."""
        for chunk in self.chunks_after(txn, origin, mark):
            return chunk.first_after(mark)
        return None

    def chunks_after(self, txn: lmdb.Transaction, origin: str, mark: Mark) -> Iterator[AnyChunk]:
        prefix = places_prefix(origin)
        with txn.cursor(db=self._table) as cursor, self._chunks.cursor(txn) as events:
            if not cursor.set_range(places_key(origin, (mark[0], mark[1] + 1))):
                if not cursor.last():
                    return
                back = True
            else:
                back = cursor.prev()
            # The chunk that begins before the mark may end after it.
            if back and bytes(cursor.key()).startswith(prefix):
                chunk = self._chunk(txn, events, cursor)
                if chunk.mark_at(chunk.last) > mark:
                    yield chunk
            if back and not cursor.next():
                return
            if not back:
                cursor.first()
            while bytes(cursor.key()).startswith(prefix):
                yield self._chunk(txn, events, cursor)
                if not cursor.next():
                    return

    def _chunk(self, txn: lmdb.Transaction, events: lmdb.Cursor, cursor: lmdb.Cursor) -> AnyChunk:
        key = bytes(cursor.key())
        try:
            serial = decode_places(key, cursor.value()).serial
        except ValueDamaged:
            serial = self._serial_of(txn, key)
        return self._chunks.chunk_from(txn, events, serial)

    def _serial_of(self, txn: lmdb.Transaction, key: bytes) -> int:
        """Return the serial of the one chunk without an entry."""
        with self._chunks.cursor(txn) as events:
            more = events.first()
            while more:
                chunk = self._chunks.chunk_at(txn, events)
                if chunk.origin and places_key(chunk.origin, chunk.mark_at(chunk.first)) == key:
                    return chunk.first
                more = events.next()
        raise LogDamaged("an entry of the table of origins is damaged, and so is its chunk")

    def position_before(self, txn: lmdb.Transaction, serial: int) -> dict[str, Mark]:
        found: dict[str, Mark] = {}
        with txn.cursor(db=self._table) as cursor, self._chunks.cursor(txn) as events:
            # Entries of other kinds may follow.
            more = cursor.prev() if cursor.set_range(b"q") else cursor.last()
            while more and bytes(cursor.key()).startswith(PLACES_PREFIX):
                chunk = self._chunk(txn, events, cursor)
                if chunk.origin not in found and chunk.first < serial:
                    found[chunk.origin] = chunk.mark_at(min(chunk.last, serial - 1))
                    cursor.set_range(places_prefix(chunk.origin))
                more = cursor.prev()
        return found

    def repair(self, txn: lmdb.Transaction) -> tuple[int, list[ChunkPlaces]]:
        """Restore entries from the heads of chunks, and drop chunks under wrong keys. Return the
        number of damaged entries and chunks, and the places of missing chunks."""
        damaged: list[bytes] = []
        known: dict[int, ChunkPlaces] = {}
        for key, places in all_places(txn, self._table):
            if places is None:
                damaged.append(key)
            else:
                known[places.serial] = places
        with self._chunks.cursor(txn) as cursor:
            keys = [bytes(key) for key in cursor.iternext(keys=True, values=False)]
        for key in keys:
            if len(key) != KEY_BYTES:
                txn.delete(key, db=self._chunks.table)
        serials = [decode_key(key) for key in keys if len(key) == KEY_BYTES]
        missing_serials = [serial for serial in serials if serial not in known]
        if missing_serials:
            self._add_missing(txn, set(missing_serials))
        if damaged:
            self._drop_damaged(txn)
        if damaged or missing_serials:
            self._chunks.clear_places()
        missing = [known[serial] for serial in sorted(known.keys() - set(serials))]
        return max(len(damaged), len(missing_serials)), missing

    def _drop_damaged(self, txn: lmdb.Transaction) -> None:
        """Damaged keys are out of order: a search misses them."""
        with txn.cursor(db=self._table) as cursor:
            more = cursor.first()
            while more:
                key = bytes(cursor.key())
                try:
                    if key[:1] not in (_COVERED, _SINCE):
                        decode_places(key, cursor.value())
                    more = cursor.next()
                except ValueDamaged:
                    more = cursor.delete() and bool(cursor.key())

    def _add_missing(self, txn: lmdb.Transaction, missing_serials: set[int]) -> None:
        follows = None
        # Keys out of order mislead a search.
        with self._chunks.cursor(txn) as cursor:
            more = cursor.first()
            while more:
                chunk = self._chunks.chunk_at(txn, cursor)
                if chunk.first in missing_serials and isinstance(chunk, StoredChunk):
                    self.add_chunk(txn, chunk.all_events())
                elif (
                    chunk.first in missing_serials
                    and follows is not None
                    and chunk.first != follows
                ):
                    more = cursor.delete() and bool(cursor.key())
                    continue
                follows = chunk.last + 1
                more = cursor.next()

    def upgrade(self, txn: lmdb.Transaction) -> None:
        """Upgrade format 3; the places of chunks stay unchecked."""
        self._checked_entries.upgrade(txn, _COVERED)
        self._checked_entries.upgrade(txn, _SINCE)

    @property
    def checked_entries(self) -> CheckedTable:
        return self._checked_entries


def _unpack(value: bytes) -> Mark:
    epoch, offset = _MARK.unpack(value)
    return (epoch, offset)
