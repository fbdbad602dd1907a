"""How events lie in the log, byte by byte: chunks of neighbours under the offset of the first.

A value is a count u32, then columns with an entry for each event: `epoch u32`, `arrival u64` (ms
since 1970), `record length u16`, `document length u32`, `level u8`; then all records, then all
documents. Integers are big-endian, the key is the offset as u64. A page of the file would hold
three events of one kilobyte and waste the rest; and each value that is put costs a call.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TypeAlias

import lmdb

from broker.store.records import OVERHEAD, LoggedEvent

#: A chunk holds at most about this much, unless a single event does: what a commit of many events
#: gains does not grow beyond it, and it is the least that a reader has to map.
CHUNK_BYTES = 60 * 1024

#: What LMDB hands out: bytes, or a view of the map for as long as the transaction lasts.
Buffer: TypeAlias = bytes | memoryview

_KEY = struct.Struct(">Q")
_COUNT = struct.Struct(">I")
_EPOCH = struct.Struct(">I")
_ARRIVAL = struct.Struct(">Q")


def encode_key(offset: int) -> bytes:
    """The key of an offset; keys sort as offsets do."""
    return _KEY.pack(offset)


def decode_key(key: Buffer) -> int:
    """The offset of a key."""
    (offset,) = _KEY.unpack(key)
    return int(offset)


def portions(most: int, events: Sequence[LoggedEvent]) -> Iterator[tuple[int, int]]:
    """(start, end) of neighbours that are about `most` bytes together; a single one may be more."""
    start = sent = before = 0
    sizes = [len(event.record) + len(event.document) + OVERHEAD for event in events]
    for i, size in enumerate(accumulate(sizes)):
        if size - sent > most and i > start:
            yield start, i
            start, sent = i, before
        before = size
    if events:
        yield start, len(events)


def encode_chunk(events: Sequence[LoggedEvent]) -> bytes:
    """The value under which events with neighbouring offsets are stored."""
    count = len(events)
    records = [event.record for event in events]
    documents = [event.document for event in events]
    columns = struct.pack(
        f">I{count}I{count}Q{count}H{count}I{count}B",
        count,
        *[event.epoch for event in events],
        *[event.arrival for event in events],
        *map(len, records),
        *map(len, documents),
        *[event.level for event in events],
    )
    return b"".join((columns, *records, *documents))


class Chunk:
    """A stored chunk, of which only what is asked for is read."""

    def __init__(self, first: int, value: Buffer) -> None:
        """`first` is the offset of its first event, `value` what lies under it."""
        (count,) = _COUNT.unpack_from(value)
        self.first = first
        self.last: int = first + count - 1
        self._count: int = count
        self._value = value

    @classmethod
    def under(cls, cursor: lmdb.Cursor) -> Chunk:
        """The chunk at which a cursor stands."""
        return cls(decode_key(cursor.key()), cursor.value())

    @classmethod
    def holding(cls, cursor: lmdb.Cursor, offset: int) -> Chunk | None:
        """The chunk with the event at `offset`, or the first one after it, where the cursor then
        stands; None if there is none."""
        if cursor.set_range(encode_key(offset)):
            chunk = cls.under(cursor)
            if chunk.first == offset:
                return chunk
            if cursor.prev():
                before = cls.under(cursor)
                if before.last >= offset:
                    return before
                cursor.next()
            else:
                cursor.first()
            return chunk
        last = cls.last_of(cursor)
        return None if last is None or last.last < offset else last

    @classmethod
    def first_of(cls, cursor: lmdb.Cursor) -> Chunk | None:
        """The oldest chunk, where the cursor then stands; None if there is none."""
        return cls.under(cursor) if cursor.first() else None

    @classmethod
    def last_of(cls, cursor: lmdb.Cursor) -> Chunk | None:
        """The newest chunk, where the cursor then stands; None if there is none."""
        return cls.under(cursor) if cursor.last() else None

    def times(self, offset: int) -> tuple[int, int]:
        """(epoch, arrival) of the event at `offset`, without reading the rest."""
        index = offset - self.first
        epochs = _COUNT.size
        arrivals = epochs + self._count * _EPOCH.size
        (epoch,) = _EPOCH.unpack_from(self._value, epochs + index * _EPOCH.size)
        (arrival,) = _ARRIVAL.unpack_from(self._value, arrivals + index * _ARRIVAL.size)
        return int(epoch), int(arrival)

    def events(self, start: int) -> Iterator[LoggedEvent]:
        """Its events from offset `start` on, as copies."""
        count, value = self._count, self._value
        form = struct.Struct(f">{count}I{count}Q{count}H{count}I{count}B")
        fields = form.unpack_from(value, _COUNT.size)
        epochs, arrivals, record_lengths, lengths, levels = (
            fields[i * count : (i + 1) * count] for i in range(5)
        )
        record_at = _COUNT.size + form.size
        document_at = record_at + sum(record_lengths)
        for index in range(count):
            record_end = record_at + record_lengths[index]
            document_end = document_at + lengths[index]
            if self.first + index >= start:
                yield LoggedEvent(
                    epochs[index],
                    self.first + index,
                    arrivals[index],
                    levels[index],
                    bytes(value[record_at:record_end]),
                    bytes(value[document_at:document_end]),
                )
            record_at, document_at = record_end, document_end


def page(
    cursor: lmdb.Cursor, start: int, max_events: int, max_bytes: int | None = None
) -> list[LoggedEvent]:
    """Up to `max_events` events from offset `start` on, about `max_bytes` at the most.

    Begins later than `start` where the log does.
    """
    events: list[LoggedEvent] = []
    room = max_bytes
    chunk = Chunk.holding(cursor, start)
    while chunk is not None:
        for event in chunk.events(start):
            events.append(event)
            if len(events) >= max_events:
                return events
            if room is not None:
                room -= event.size
                if room <= 0:
                    return events
        chunk = Chunk.under(cursor) if cursor.next() else None
    return events
