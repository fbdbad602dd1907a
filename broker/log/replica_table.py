"""Copies of other nodes' events, kept in case their disks are lost (`acknowledge = "neighbour"`).

A table beside the log, for these are no events that anybody here wants. Its keys are the origin, a
NUL and the place of the first event of a chunk (`epoch u32, offset u64`), its values chunks as in
the log. What is kept of an origin is one span without a hole; it stands under the origin and a NUL
alone: `epoch u32, offset u64` twice, behind which place it begins and up to which it goes, and the
address of its node in UTF-8. Spans are checked and have a second copy (see `values`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import lmdb

from broker.event.place import Mark
from broker.log.checksum import ValueDamaged
from broker.log.chunk import chunks_of
from broker.log.commit import Keeping
from broker.log.damage import Damage, DamageFound, Kind, Span
from broker.log.logged_event import LoggedEvent
from broker.log.stored_chunk import HeadDamaged, StoredChunk, encode_stored, span_of
from broker.log.table_size import table_bytes
from broker.log.archive_hold import UnarchivedHold
from broker.log.checked_table import Values

_MARK = struct.Struct(">IQ")
_SPAN = struct.Struct(">IQIQ")
KEPT = "kept"
_NEVER_OLD = 2**63
#: No chunk has as many events.
_MOST_MARKS = 10_000


class KeptSpan(NamedTuple):
    """All events of an origin in (after, upto] are kept."""

    after: Mark
    upto: Mark
    owner: str = ""
    """The address of the origin's node; empty where that is not known."""

    def packed(self) -> bytes:
        """As it stands in the table."""
        return _SPAN.pack(*self.after, *self.upto) + self.owner.encode()

    @classmethod
    def unpacked(cls, value: bytes) -> KeptSpan:
        """What `packed` wrote."""
        epoch, offset, last_epoch, last_offset = _SPAN.unpack_from(value)
        owner = value[_SPAN.size :].decode()
        return cls((epoch, offset), (last_epoch, last_offset), owner)


class _OldestChunk(NamedTuple):
    """The oldest chunk of an origin."""

    arrival: int
    """When its last event was logged, in ms since 1970."""
    last: Mark


class Kept:
    """The table, as transactions of the log use it."""

    def __init__(self, table: Any, copies: Any) -> None:
        self.table = table
        self.values = Values(b"k", table, copies)

    def keep(
        self,
        txn: lmdb.Transaction,
        spans: Mapping[str, KeptSpan],
        keeping: Sequence[Keeping],
        max_bytes: int,
        hold: UnarchivedHold,
    ) -> dict[str, KeptSpan]:
        """Keep copies beside these spans; the oldest that `hold` does not keep, of whatever origin,
        make room where that is needed. The spans that are kept then."""
        kept = dict(spans)
        for each in keeping:
            span = kept.get(each.origin)
            events: Sequence[LoggedEvent] = each.events
            if span is not None and span.after <= each.after <= span.upto:
                # Its owner may not have known yet what was on its way to the disk.
                events = [event for event in events if event.mark > span.upto]
                span = KeptSpan(span.after, max(span.upto, each.upto), each.owner)
            else:
                if span is not None:
                    self.begin_again(txn, each.origin)
                span = KeptSpan(each.after, each.upto, each.owner)
            self._add(txn, span, each.origin, events)
            kept[each.origin] = span
        while (used := table_bytes(txn, self.table)) > max_bytes:
            oldest = self._oldest(txn, kept, hold, used)
            if oldest is None:
                break
            kept[oldest] = self.trim(txn, oldest, kept[oldest])
        return kept

    def _add(
        self, txn: lmdb.Transaction, span: KeptSpan, origin: str, events: Sequence[LoggedEvent]
    ) -> None:
        for chunk in chunks_of(events):
            key = kept_key(origin, chunk[0].mark)
            txn.put(key, encode_stored(key, chunk), db=self.table)
        self.values.put(txn, _prefix(origin), span.packed())

    def begin_again(self, txn: lmdb.Transaction, origin: str) -> None:
        """What was kept of an origin does not go on: it goes."""
        self.drop(txn, _prefix(origin))

    def drop(self, txn: lmdb.Transaction, prefix: bytes) -> None:
        """Delete all entries that begin so, with the span."""
        self.values.delete(txn, prefix)
        with txn.cursor(db=self.table) as cursor:
            more = cursor.set_range(prefix)
            while more and bytes(cursor.key()).startswith(prefix):
                more = cursor.delete()

    def trim(self, txn: lmdb.Transaction, origin: str, span: KeptSpan) -> KeptSpan:
        """Let the oldest chunk of an origin go; the span that is left."""
        prefix = _prefix(origin)
        with txn.cursor(db=self.table) as cursor:
            if cursor.set_range(prefix + b"\0") and bytes(cursor.key()).startswith(prefix):
                chunk = self._chunk(cursor)
                if chunk is None:
                    last = self._last_place(txn, cursor, span)
                else:
                    last = chunk.mark(chunk.last)
                span = span._replace(after=last)
                cursor.delete()
                self.values.put(txn, prefix, span.packed())
        return span

    def forget(
        self, txn: lmdb.Transaction, origin: str, span: KeptSpan, before: int
    ) -> KeptSpan | None:
        """Let chunks go that were logged `before` (ms since 1970); None if nothing is left."""
        while True:
            oldest = self._oldest_chunk(txn, origin, span)
            if oldest is None:
                self.begin_again(txn, origin)
                return None
            if oldest.arrival >= before:
                return span
            span = self.trim(txn, origin, span)

    def _oldest(
        self, txn: lmdb.Transaction, spans: Mapping[str, KeptSpan], hold: UnarchivedHold, used: int
    ) -> str | None:
        """The origin that has the oldest chunk, as its owner logged it, that may go."""
        found = [
            (oldest.arrival, origin)
            for origin, span in spans.items()
            for oldest in [self._oldest_chunk(txn, origin, span)]
            if oldest is not None and not hold.keeps_copies(origin, oldest.last, used)
        ]
        return min(found)[1] if found else None

    def _oldest_chunk(
        self, txn: lmdb.Transaction, origin: str, span: KeptSpan
    ) -> _OldestChunk | None:
        prefix = _prefix(origin)
        with txn.cursor(db=self.table) as cursor:
            if not cursor.set_range(prefix + b"\0"):
                return None
            if not bytes(cursor.key()).startswith(prefix):
                return None
            chunk = self._chunk(cursor)
            if chunk is None:
                # It is repaired, or goes when something else has to.
                return _OldestChunk(_NEVER_OLD, self._last_place(txn, cursor, span))
            return _OldestChunk(chunk.arrival(chunk.last), chunk.mark(chunk.last))

    def spans(self, txn: lmdb.Transaction) -> dict[str, KeptSpan]:
        """What is kept of each origin."""
        found: dict[str, KeptSpan] = {}
        for prefix in self.prefixes(txn):
            try:
                value = self.values.get(txn, prefix)
                if value is not None:
                    found[prefix[:-1].decode()] = KeptSpan.unpacked(value)
            except (ValueDamaged, ValueError):
                # Without its span a replica is of no use: its owner sends it again.
                continue
        return found

    def prefixes(self, txn: lmdb.Transaction) -> Iterator[bytes]:
        """The keys of all spans."""
        with txn.cursor(db=self.table) as cursor:
            more = cursor.first()
            while more:
                origin = bytes(cursor.key()).partition(b"\0")[0]
                yield origin + b"\0"
                more = cursor.set_range(origin + b"\1")

    def read(
        self, txn: lmdb.Transaction, origin: str, after: Mark, max_events: int, max_bytes: int
    ) -> list[LoggedEvent]:
        """Events behind `after`, as many as make a page."""
        prefix = _prefix(origin)
        found: list[LoggedEvent] = []
        with txn.cursor(db=self.table) as cursor:
            # The chunk that begins before may end behind the mark.
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
        elif (start := chunk.after(after)) is not None:
            yield from chunk.events(start)

    def _chunk(self, cursor: lmdb.Cursor) -> StoredChunk | None:
        """The chunk at a cursor; None if its head is damaged."""
        try:
            return StoredChunk(KEPT, bytes(cursor.key()), 0, cursor.value())
        except HeadDamaged:
            return None

    def damage_at(self, txn: lmdb.Transaction, cursor: lmdb.Cursor) -> Damage:
        """The damage of a chunk whose head can not be read: a replica has no holes, so the chunk
        ends where the next one begins."""
        key = bytes(cursor.key())
        origin = key.partition(b"\0")[0].decode(errors="replace")
        first = mark_of(key)
        span = self.spans(txn).get(origin)
        upto = self._last_place(txn, cursor, span)
        if upto[1] - first[1] >= _MOST_MARKS:
            # Places that hold nothing lie in between.
            epoch, offset = first
            spans = (Span(origin, (epoch, offset - 1), upto),)
            return Damage(KEPT, key, 0, _MOST_MARKS, Kind.HEAD, spans)
        offsets = range(first[1], max(upto[1], first[1]) + 1)
        marks = (first, *((upto[0], offset) for offset in offsets[1:]))
        return Damage(
            *(KEPT, key, 0, len(marks) - 1, Kind.HEAD),
            spans=(span_of(origin, marks),),
            marks=marks,
        )

    def _last_place(
        self, txn: lmdb.Transaction, cursor: lmdb.Cursor, span: KeptSpan | None
    ) -> Mark:
        """The last place of the chunk at a cursor, as the next chunk or the span tells."""
        key = bytes(cursor.key())
        prefix = key[: key.index(b"\0") + 1]
        with txn.cursor(db=self.table) as other:
            if other.set_range(key + b"\0") and bytes(other.key()).startswith(prefix):
                epoch, offset = mark_of(bytes(other.key()))
                return (epoch, offset - 1)
        return mark_of(key) if span is None else span.upto


def _prefix(origin: str) -> bytes:
    return origin.encode() + b"\0"


def kept_key(origin: str, mark: Mark) -> bytes:
    """The key of a chunk that begins with a place."""
    return _prefix(origin) + _MARK.pack(*mark)


def mark_of(key: bytes) -> Mark:
    """The place in the key of a chunk."""
    epoch, offset = _MARK.unpack(key[-_MARK.size :])
    return (epoch, offset)
