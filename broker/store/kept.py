"""Copies of other nodes' events, kept in case their disks are lost (`acknowledge = "neighbour"`).

A table beside the log, for these are no events that anybody here wants. Its keys are the origin, a
NUL and the place of the first event of a chunk (`epoch u32, offset u64`), its values chunks as in
the log. What is kept of an origin is one span without a hole; it stands under the origin and a NUL
alone: `epoch u32, offset u64` twice, behind which place it begins and up to which it goes, and the
address of its node in UTF-8.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import lmdb

from broker.event.place import Mark
from broker.store.chunks import Chunk, chunks_of, encode_chunk
from broker.store.commit import Keeping
from broker.store.records import LoggedEvent
from broker.store.table_size import table_bytes

_MARK = struct.Struct(">IQ")
_SPAN = struct.Struct(">IQIQ")


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


class Kept:
    """The table, as transactions of the log use it."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def keep(
        self,
        txn: lmdb.Transaction,
        spans: Mapping[str, KeptSpan],
        keeping: Sequence[Keeping],
        max_bytes: int,
    ) -> dict[str, KeptSpan]:
        """Keep copies beside these spans; the oldest, of whatever origin, make room where that is
        needed. The spans that are kept then."""
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
        while table_bytes(txn, self.table) > max_bytes:
            oldest = self.oldest(txn, kept)
            if oldest is None:
                break
            kept[oldest] = self.trim(txn, oldest, kept[oldest])
        return kept

    def _add(
        self, txn: lmdb.Transaction, span: KeptSpan, origin: str, events: Sequence[LoggedEvent]
    ) -> None:
        for chunk in chunks_of(events):
            key = _prefix(origin) + _MARK.pack(*chunk[0].mark)
            txn.put(key, encode_chunk(chunk), db=self.table)
        txn.put(_prefix(origin), span.packed(), db=self.table)

    def begin_again(self, txn: lmdb.Transaction, origin: str) -> None:
        """What was kept of an origin does not go on: it goes."""
        prefix = _prefix(origin)
        with txn.cursor(db=self.table) as cursor:
            more = cursor.set_range(prefix)
            while more and bytes(cursor.key()).startswith(prefix):
                more = cursor.delete()

    def trim(self, txn: lmdb.Transaction, origin: str, span: KeptSpan) -> KeptSpan:
        """Let the oldest chunk of an origin go; the span that is left."""
        prefix = _prefix(origin)
        with txn.cursor(db=self.table) as cursor:
            if cursor.set_range(prefix + b"\0") and bytes(cursor.key()).startswith(prefix):
                chunk = Chunk(0, cursor.value())
                span = span._replace(after=chunk.mark(chunk.last))
                cursor.delete()
                txn.put(prefix, span.packed(), db=self.table)
        return span

    def forget(
        self, txn: lmdb.Transaction, origin: str, span: KeptSpan, before: int
    ) -> KeptSpan | None:
        """Let chunks go that were logged `before` (ms since 1970); None if nothing is left."""
        while True:
            arrival = self._oldest_arrival(txn, origin)
            if arrival is None:
                self.begin_again(txn, origin)
                return None
            if arrival >= before:
                return span
            span = self.trim(txn, origin, span)

    def oldest(self, txn: lmdb.Transaction, origins: Iterable[str]) -> str | None:
        """The origin that has the oldest chunk, as its owner logged it; None if there is none."""
        found = [
            (arrival, origin)
            for origin in origins
            for arrival in [self._oldest_arrival(txn, origin)]
            if arrival is not None
        ]
        return min(found)[1] if found else None

    def _oldest_arrival(self, txn: lmdb.Transaction, origin: str) -> int | None:
        prefix = _prefix(origin)
        with txn.cursor(db=self.table) as cursor:
            if not cursor.set_range(prefix + b"\0"):
                return None
            if not bytes(cursor.key()).startswith(prefix):
                return None
            chunk = Chunk(0, cursor.value())
            return chunk.arrival(chunk.last)

    def spans(self, txn: lmdb.Transaction) -> dict[str, KeptSpan]:
        """What is kept of each origin."""
        found: dict[str, KeptSpan] = {}
        with txn.cursor(db=self.table) as cursor:
            more = cursor.first()
            while more:
                origin = bytes(cursor.key()).partition(b"\0")[0]
                found[origin.decode()] = KeptSpan.unpacked(bytes(cursor.value()))
                more = cursor.set_range(origin + b"\1")
        return found

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
            while more and bytes(cursor.key()).startswith(prefix):
                if len(cursor.key()) > len(prefix):
                    for event in Chunk(0, cursor.value()).events(0):
                        if event.mark <= after:
                            continue
                        found.append(event)
                        max_bytes -= event.size
                        if len(found) >= max_events or max_bytes <= 0:
                            return found
                more = cursor.next()
        return found


def _prefix(origin: str) -> bytes:
    return origin.encode() + b"\0"
