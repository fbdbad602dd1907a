"""Where the events of each origin lie in the log, and up to which place the log covers an origin.

One table with three kinds of entry, integers big-endian:

- `c` origin -> `epoch u32, offset u64`: the log has all that it wanted of this origin up to there;
- `s` origin -> `epoch u32, offset u64`: from behind there on, since older events were never wanted,
  or had to go;
- `p` origin NUL `epoch u32, offset u64`: the places of a chunk that begins so (see `places`).

Entries of the first two kinds are checked and have a second copy (see `values`).
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
    """The table, as transactions of the log use it; `table` and `copies` are LMDB's handles."""

    def __init__(self, table: Any, copies: Any, chunks: ChunkTable) -> None:
        self._table = table
        self._chunks = chunks
        self._checked_entries = CheckedTable(b"o", table, copies, is_rising=True)

    # ------------------------------------------------------------------ writing

    def add_chunk(self, txn: lmdb.Transaction, chunk: Sequence[LoggedEvent]) -> None:
        """A chunk was written."""
        first = chunk[0]
        key = places_key(first.origin, (first.epoch, first.offset))
        txn.put(key, encode_places(key, chunk), db=self._table)

    def remove_chunk(self, txn: lmdb.Transaction, chunk: AnyChunk) -> dict[str, Mark]:
        """A chunk goes: of its origin the log now begins behind the mark that is returned. Of a
        chunk without a known origin these are the marks of all candidates."""
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
        """The log has what it wants of an origin from behind `mark` on, if not from later on."""
        key = _SINCE + origin.encode()
        known = self._checked_entries.get_or_none(txn, key)
        if known is None or _unpack(known) < mark:
            self._checked_entries.put(txn, key, _MARK.pack(*mark))

    def set_covered(self, txn: lmdb.Transaction, origin: str, mark: Mark) -> None:
        """The log has all that it wants of an origin, up to `mark`."""
        self._checked_entries.put(txn, _COVERED + origin.encode(), _MARK.pack(*mark))

    # ------------------------------------------------------------------ reading

    def covered(self, txn: lmdb.Transaction) -> dict[str, Mark]:
        """Up to where each origin is covered: at least up to its last event, also where that is
        damaged, or was left by a write that was lost."""
        marks = self._marks(txn, _COVERED, self.last_place)
        return {origin: max(mark, self.last_place(txn, origin)) for origin, mark in marks.items()}

    def begins_after(self, txn: lmdb.Transaction) -> dict[str, Mark]:
        """Behind which mark the log begins, of origins of which it has not all. Where that is
        damaged: behind the place before its first event."""
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
        """The last place of an origin in the log."""
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
        """The serial of the origin's first event behind `mark`; None if there is none."""
        for chunk in self.chunks_after(txn, origin, mark):
            return chunk.first_after(mark)
        return None

    def chunks_after(self, txn: lmdb.Transaction, origin: str, mark: Mark) -> Iterator[AnyChunk]:
        """The chunks of an origin with events behind `mark`, in their order."""
        prefix = places_prefix(origin)
        with txn.cursor(db=self._table) as cursor, self._chunks.cursor(txn) as events:
            if not cursor.set_range(places_key(origin, (mark[0], mark[1] + 1))):
                if not cursor.last():
                    return
                back = True
            else:
                back = cursor.prev()
            # The chunk that begins before the mark may end behind it.
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
        """The chunk of the entry at a cursor."""
        key = bytes(cursor.key())
        try:
            serial = decode_places(key, cursor.value()).serial
        except ValueDamaged:
            serial = self._serial_of(txn, key)
        return self._chunks.chunk_from(txn, events, serial)

    def _serial_of(self, txn: lmdb.Transaction, key: bytes) -> int:
        """The serial of the chunk that a damaged entry names: the one chunk without an entry."""
        with self._chunks.cursor(txn) as events:
            more = events.first()
            while more:
                chunk = self._chunks.chunk_at(txn, events)
                if chunk.origin and places_key(chunk.origin, chunk.mark_at(chunk.first)) == key:
                    return chunk.first
                more = events.next()
        raise LogDamaged("an entry of the table of origins is damaged, and so is its chunk")

    def position_before(self, txn: lmdb.Transaction, serial: int) -> dict[str, Mark]:
        """For each origin the place of its last event before `serial`, where there is one."""
        found: dict[str, Mark] = {}
        with txn.cursor(db=self._table) as cursor, self._chunks.cursor(txn) as events:
            # Entries of other kinds may lie behind.
            more = cursor.prev() if cursor.set_range(b"q") else cursor.last()
            while more and bytes(cursor.key()).startswith(PLACES_PREFIX):
                chunk = self._chunk(txn, events, cursor)
                if chunk.origin not in found and chunk.first < serial:
                    found[chunk.origin] = chunk.mark_at(min(chunk.last, serial - 1))
                    cursor.set_range(places_prefix(chunk.origin))
                more = cursor.prev()
        return found

    # ------------------------------------------------------------------ care

    def repair(self, txn: lmdb.Transaction) -> tuple[int, list[ChunkPlaces]]:
        """Write entries again that are damaged or missing, from the heads of their chunks, and drop
        chunks under wrong keys, and keys of another length. Returns the number of entries and
        chunks that were damaged, and the places of missing chunks."""
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
        lacking = [serial for serial in serials if serial not in known]
        if lacking:
            self._add_missing(txn, set(lacking))
        if damaged:
            self._drop_damaged(txn)
        if damaged or lacking:
            self._chunks.clear_places()
        missing = [known[serial] for serial in sorted(known.keys() - set(serials))]
        return max(len(damaged), len(lacking)), missing

    def _drop_damaged(self, txn: lmdb.Transaction) -> None:
        """Remove the entries that are damaged still. A search does not find a key that is damaged
        itself, since it is out of order."""
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

    def _add_missing(self, txn: lmdb.Transaction, lacking: set[int]) -> None:
        follows = None
        # One after the other, since keys that are out of order mislead a search.
        with self._chunks.cursor(txn) as cursor:
            more = cursor.first()
            while more:
                chunk = self._chunks.chunk_at(txn, cursor)
                if chunk.first in lacking and isinstance(chunk, StoredChunk):
                    self.add_chunk(txn, chunk.all_events())
                elif chunk.first in lacking and follows is not None and chunk.first != follows:
                    more = cursor.delete() and bool(cursor.key())
                    continue
                follows = chunk.last + 1
                more = cursor.next()

    def upgrade(self, txn: lmdb.Transaction) -> None:
        """Add checksums and copies to the entries of format 3, but for the places of chunks."""
        self._checked_entries.upgrade(txn, _COVERED)
        self._checked_entries.upgrade(txn, _SINCE)

    @property
    def checked_entries(self) -> CheckedTable:
        """The checked entries."""
        return self._checked_entries


def _unpack(value: bytes) -> Mark:
    epoch, offset = _MARK.unpack(value)
    return (epoch, offset)
