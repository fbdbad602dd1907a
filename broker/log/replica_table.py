"""Replicas of other nodes' events, in case their disks are lost (`acknowledge = "neighbour"`).

They match no subscription of this node. Keys are the origin, a NUL and the first place of a chunk
(`epoch u32, offset u64`); values are chunks. A replica is one range without gaps. Its span is under
the origin and a NUL alone: `epoch u32, offset u64` twice, for the begin and end marks, and its
node's address in UTF-8. Spans are checked and have a second copy.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import lmdb

from broker.event.place import Mark
from broker.log.archive_hold import ArchiveHold
from broker.log.checked_table import CheckedTable
from broker.log.checksum import ValueDamaged
from broker.log.chunk import split_into_chunks
from broker.log.commit import ReplicaBatch
from broker.log.damage import Damage, DamageFound, DamageKind, Span
from broker.log.logged_event import LoggedEvent
from broker.log.stored_chunk import HeadDamaged, StoredChunk, encode_stored_chunk, span_of
from broker.log.table_size import table_bytes

_MARK = struct.Struct(">IQ")
_SPAN = struct.Struct(">IQIQ")
REPLICA_TABLE = "kept"
_NEVER_OLD = 2**63
#: More events than any chunk has.
_MAX_MARKS = 10_000


class ReplicaSpan(NamedTuple):
    """Range of a replica: it has all events in (after, upto]."""

    after: Mark
    upto: Mark
    owner: str = ""
    """Address of the origin's node; empty if it is unknown."""

    def encode(self) -> bytes:
        return _SPAN.pack(*self.after, *self.upto) + self.owner.encode()

    @classmethod
    def decode(cls, value: bytes) -> ReplicaSpan:
        epoch, offset, last_epoch, last_offset = _SPAN.unpack_from(value)
        owner = value[_SPAN.size :].decode()
        return cls((epoch, offset), (last_epoch, last_offset), owner)


class _OldestChunk(NamedTuple):
    arrival: int
    """Time when its last event was logged, in ms since 1970."""
    last: Mark


class ReplicaTable:
    def __init__(self, table: Any, copies: Any) -> None:
        self.table = table
        self.spans_table = CheckedTable(b"k", table, copies)

    def add_batches(
        self,
        txn: lmdb.Transaction,
        spans: Mapping[str, ReplicaSpan],
        batches: Sequence[ReplicaBatch],
        max_bytes: int,
        hold: ArchiveHold,
    ) -> dict[str, ReplicaSpan]:
        """Return the new spans. Without room, the oldest chunks of any origin go, except those that
        `hold` protects."""
        kept = dict(spans)
        for each in batches:
            span = kept.get(each.origin)
            events: Sequence[LoggedEvent] = each.events
            if span is not None and span.after <= each.after <= span.upto:
                # The owner may not have known of events on their way to the disk.
                events = [event for event in events if event.mark > span.upto]
                span = ReplicaSpan(span.after, max(span.upto, each.upto), each.owner)
            else:
                if span is not None:
                    self.remove_origin(txn, each.origin)
                span = ReplicaSpan(each.after, each.upto, each.owner)
            self._add(txn, span, each.origin, events)
            kept[each.origin] = span
        while (used_bytes := table_bytes(txn, self.table)) > max_bytes:
            oldest = self._origin_to_trim(txn, kept, hold, used_bytes)
            if oldest is None:
                break
            kept[oldest] = self.drop_oldest_chunk(txn, oldest, kept[oldest])
        return kept

    def _add(
        self, txn: lmdb.Transaction, span: ReplicaSpan, origin: str, events: Sequence[LoggedEvent]
    ) -> None:
        for chunk in split_into_chunks(events):
            key = replica_key(origin, chunk[0].mark)
            txn.put(key, encode_stored_chunk(key, chunk), db=self.table)
        self.spans_table.put(txn, _prefix(origin), span.encode())

    def remove_origin(self, txn: lmdb.Transaction, origin: str) -> None:
        self.delete_prefix(txn, _prefix(origin))

    def delete_prefix(self, txn: lmdb.Transaction, prefix: bytes) -> None:
        self.spans_table.delete(txn, prefix)
        with txn.cursor(db=self.table) as cursor:
            more = cursor.set_range(prefix)
            while more and bytes(cursor.key()).startswith(prefix):
                more = cursor.delete()

    def drop_oldest_chunk(
        self, txn: lmdb.Transaction, origin: str, span: ReplicaSpan
    ) -> ReplicaSpan:
        """Return the remaining span."""
        prefix = _prefix(origin)
        with txn.cursor(db=self.table) as cursor:
            if cursor.set_range(prefix + b"\0") and bytes(cursor.key()).startswith(prefix):
                chunk = self._chunk(cursor)
                if chunk is None:
                    last = self._last_place(txn, cursor, span)
                else:
                    last = chunk.mark_at(chunk.last)
                span = span._replace(after=last)
                cursor.delete()
                self.spans_table.put(txn, prefix, span.encode())
        return span

    def drop_older_chunks(
        self, txn: lmdb.Transaction, origin: str, span: ReplicaSpan, before: int
    ) -> ReplicaSpan | None:
        """`before` is ms since 1970. Return None if nothing is left."""
        while True:
            oldest = self._oldest_chunk(txn, origin, span)
            if oldest is None:
                self.remove_origin(txn, origin)
                return None
            if oldest.arrival >= before:
                return span
            span = self.drop_oldest_chunk(txn, origin, span)

    def _origin_to_trim(
        self,
        txn: lmdb.Transaction,
        spans: Mapping[str, ReplicaSpan],
        hold: ArchiveHold,
        used_bytes: int,
    ) -> str | None:
        """Return the origin with the oldest chunk, by its owner's time."""
        found = [
            (oldest.arrival, origin)
            for origin, span in spans.items()
            for oldest in [self._oldest_chunk(txn, origin, span)]
            if oldest is not None and not hold.holds_replica(origin, oldest.last, used_bytes)
        ]
        return min(found)[1] if found else None

    def _oldest_chunk(
        self, txn: lmdb.Transaction, origin: str, span: ReplicaSpan
    ) -> _OldestChunk | None:
        prefix = _prefix(origin)
        with txn.cursor(db=self.table) as cursor:
            if not cursor.set_range(prefix + b"\0"):
                return None
            if not bytes(cursor.key()).startswith(prefix):
                return None
            chunk = self._chunk(cursor)
            if chunk is None:
                # It is repaired, or deleted to make room.
                return _OldestChunk(_NEVER_OLD, self._last_place(txn, cursor, span))
            return _OldestChunk(chunk.arrival_at(chunk.last), chunk.mark_at(chunk.last))

    def spans(self, txn: lmdb.Transaction) -> dict[str, ReplicaSpan]:
        found: dict[str, ReplicaSpan] = {}
        for prefix in self.prefixes(txn):
            try:
                value = self.spans_table.get(txn, prefix)
                if value is not None:
                    found[prefix[:-1].decode()] = ReplicaSpan.decode(value)
            except (ValueDamaged, ValueError):
                # A replica without a span is useless: its owner sends it again.
                continue
        return found

    def prefixes(self, txn: lmdb.Transaction) -> Iterator[bytes]:
        with txn.cursor(db=self.table) as cursor:
            more = cursor.first()
            while more:
                origin = bytes(cursor.key()).partition(b"\0")[0]
                yield origin + b"\0"
                more = cursor.set_range(origin + b"\1")

    def read(
        self, txn: lmdb.Transaction, origin: str, after: Mark, max_events: int, max_bytes: int
    ) -> list[LoggedEvent]:
        prefix = _prefix(origin)
        found: list[LoggedEvent] = []
        with txn.cursor(db=self.table) as cursor:
            # The chunk that begins before the mark may end after it.
            more = cursor.set_range(prefix + _MARK.pack(after[0], after[1] + 1))
            more = cursor.prev() if more else cursor.last()
            try:
                while more and bytes(cursor.key()).startswith(prefix):
                    if len(cursor.key()) > len(prefix):
                        for event in self._events_behind(txn, cursor, after):
                            found.append(event)
                            max_bytes -= event.size
                            if len(found) >= max_events or max_bytes <= 0:
                                return found
                    more = cursor.next()
            except DamageFound:
                if not found:
                    raise
        return found

    def _events_behind(
        self, txn: lmdb.Transaction, cursor: lmdb.Cursor, after: Mark
    ) -> Iterator[LoggedEvent]:
        chunk = self._chunk(cursor)
        if chunk is None:
            damage = self.damage_at(txn, cursor)
            if damage.upto > after:
                raise DamageFound(damage)
        elif (start := chunk.first_after(after)) is not None:
            yield from chunk.events_from(start)

    def _chunk(self, cursor: lmdb.Cursor) -> StoredChunk | None:
        """Return None for a damaged head."""
        try:
            return StoredChunk(REPLICA_TABLE, bytes(cursor.key()), 0, cursor.value())
        except HeadDamaged:
            return None

    def damage_at(self, txn: lmdb.Transaction, cursor: lmdb.Cursor) -> Damage:
        """Return the damage of an unreadable chunk: it ends where the next one begins."""
        key = bytes(cursor.key())
        origin = key.partition(b"\0")[0].decode(errors="replace")
        first = mark_from_key(key)
        span = self.spans(txn).get(origin)
        upto = self._last_place(txn, cursor, span)
        if upto[1] - first[1] >= _MAX_MARKS:
            # Empty places lie in between.
            epoch, offset = first
            spans = (Span(origin, (epoch, offset - 1), upto),)
            return Damage(REPLICA_TABLE, key, 0, _MAX_MARKS, DamageKind.HEAD, spans)
        offsets = range(first[1], max(upto[1], first[1]) + 1)
        marks = (first, *((upto[0], offset) for offset in offsets[1:]))
        return Damage(
            *(REPLICA_TABLE, key, 0, len(marks) - 1, DamageKind.HEAD),
            spans=(span_of(origin, marks),),
            marks=marks,
        )

    def _last_place(
        self, txn: lmdb.Transaction, cursor: lmdb.Cursor, span: ReplicaSpan | None
    ) -> Mark:
        """Return the chunk's last place, from the next chunk or the span."""
        key = bytes(cursor.key())
        prefix = key[: key.index(b"\0") + 1]
        with txn.cursor(db=self.table) as other:
            if other.set_range(key + b"\0") and bytes(other.key()).startswith(prefix):
                epoch, offset = mark_from_key(bytes(other.key()))
                return (epoch, offset - 1)
        return mark_from_key(key) if span is None else span.upto


def _prefix(origin: str) -> bytes:
    return origin.encode() + b"\0"


def replica_key(origin: str, mark: Mark) -> bytes:
    return _prefix(origin) + _MARK.pack(*mark)


def mark_from_key(key: bytes) -> Mark:
    epoch, offset = _MARK.unpack(key[-_MARK.size :])
    return (epoch, offset)
