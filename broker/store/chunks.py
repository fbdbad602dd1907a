"""How events lie in the log, byte by byte: chunks of neighbours under the serial of the first.

The events of a chunk have one origin. A value is a count u32, the length of the origin's name u8
and the name, then columns with an entry for each event: `epoch u32`, `arrival u64` (ms since 1970),
`offset u64`, `record length u16`, `document length u32`, `level u8`; then all records, then all
documents. Integers are big-endian, the key is the serial as u64. A page of the file would hold
three events of one kilobyte and waste the rest; and each value that is put costs a call.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, groupby
from operator import attrgetter
from typing import TypeAlias

import lmdb

from broker.event.place import Mark
from broker.store.records import OVERHEAD, LoggedEvent

#: A chunk holds at most about this much, unless a single event does: what a commit of many events
#: gains does not grow beyond it, and it is the least that a reader has to map.
CHUNK_BYTES = 60 * 1024

#: What LMDB hands out: bytes, or a view of the map for as long as the transaction lasts.
Buffer: TypeAlias = bytes | memoryview

_KEY = struct.Struct(">Q")
_HEAD = struct.Struct(">IB")
_EPOCH = struct.Struct(">I")
_ARRIVAL = struct.Struct(">Q")
_OFFSET = struct.Struct(">Q")
_origin = attrgetter("origin")


def encode_key(serial: int) -> bytes:
    """The key of a serial; keys sort as serials do."""
    return _KEY.pack(serial)


def decode_key(key: Buffer) -> int:
    """The serial of a key."""
    (serial,) = _KEY.unpack(key)
    return int(serial)


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


def chunks_of(events: Sequence[LoggedEvent]) -> Iterator[Sequence[LoggedEvent]]:
    """Neighbouring events in groups that each make a chunk."""
    if len(set(map(_origin, events))) == 1:
        runs: Iterator[Sequence[LoggedEvent]] = iter((events,))
    else:
        runs = (list(run) for _, run in groupby(events, key=_origin))
    for run in runs:
        for start, end in portions(CHUNK_BYTES, run):
            yield run[start:end]


def encode_chunk(events: Sequence[LoggedEvent]) -> bytes:
    """The value under which events of one origin with neighbouring serials are stored."""
    records = [event.record for event in events]
    documents = [event.document for event in events]
    columns = _columns(len(events)).pack(
        *[event.epoch for event in events],
        *[event.arrival for event in events],
        *[event.offset for event in events],
        *map(len, records),
        *map(len, documents),
        *[event.level for event in events],
    )
    return encode_columns(events[0].origin, len(events), [columns], [*records, *documents])


def encode_columns(
    origin: str, count: int, columns: Sequence[bytes], contents: Sequence[Buffer]
) -> bytes:
    """The same of columns that are encoded already, and of records and documents."""
    named = origin.encode()
    return b"".join((_HEAD.pack(count, len(named)), named, *columns, *contents))


class Chunk:
    """A stored chunk, of which only what is asked for is read."""

    def __init__(self, first: int, value: Buffer) -> None:
        """`first` is the serial of its first event, `value` what lies under it."""
        count, named = _HEAD.unpack_from(value)
        self.first = first
        self.last: int = first + count - 1
        self._count: int = count
        self.columns_at = _HEAD.size + named
        """Where in the value its columns begin."""
        self.value = value

    @property
    def is_exact(self) -> bool:
        """Whether the value is as long as it says. Raises `struct.error` if it is shorter than its
        columns."""
        count, form = self._count, _columns(self._count)
        lengths = form.unpack_from(self.value, self.columns_at)[3 * count : 5 * count]
        return bool(len(self.value) == self.columns_at + form.size + sum(lengths))

    @property
    def origin(self) -> str:
        """Whose places its events have."""
        return bytes(self.value[_HEAD.size : self.columns_at]).decode()

    @classmethod
    def under(cls, cursor: lmdb.Cursor) -> Chunk:
        """The chunk at which a cursor stands."""
        return cls(decode_key(cursor.key()), cursor.value())

    @classmethod
    def holding(cls, cursor: lmdb.Cursor, serial: int) -> Chunk | None:
        """The chunk with the event at `serial`, or the first one after it, where the cursor then
        stands; None if there is none."""
        if cursor.set_range(encode_key(serial)):
            chunk = cls.under(cursor)
            if chunk.first == serial:
                return chunk
            if cursor.prev():
                before = cls.under(cursor)
                if before.last >= serial:
                    return before
                cursor.next()
            else:
                cursor.first()
            return chunk
        last = cls.last_of(cursor)
        return None if last is None or last.last < serial else last

    @classmethod
    def first_of(cls, cursor: lmdb.Cursor) -> Chunk | None:
        """The oldest chunk, where the cursor then stands; None if there is none."""
        return cls.under(cursor) if cursor.first() else None

    @classmethod
    def last_of(cls, cursor: lmdb.Cursor) -> Chunk | None:
        """The newest chunk, where the cursor then stands; None if there is none."""
        return cls.under(cursor) if cursor.last() else None

    def mark(self, serial: int) -> Mark:
        """(epoch, offset) of the event at `serial`, without reading the rest."""
        offsets = self.columns_at + self._count * (_EPOCH.size + _ARRIVAL.size)
        (offset,) = _OFFSET.unpack_from(self.value, offsets + (serial - self.first) * _OFFSET.size)
        (epoch,) = _EPOCH.unpack_from(
            self.value, self.columns_at + (serial - self.first) * _EPOCH.size
        )
        return int(epoch), int(offset)

    def arrival(self, serial: int) -> int:
        """When the event at `serial` was logged, ms since 1970."""
        arrivals = self.columns_at + self._count * _EPOCH.size
        (arrival,) = _ARRIVAL.unpack_from(
            self.value, arrivals + (serial - self.first) * _ARRIVAL.size
        )
        return int(arrival)

    def after(self, mark: Mark) -> int | None:
        """The serial of its first event behind `mark`; None if there is none."""
        if self.mark(self.last) <= mark:
            return None
        serials = range(self.first, self.last + 1)
        return next(serial for serial in serials if self.mark(serial) > mark)

    def events(self, start: int) -> Iterator[LoggedEvent]:
        """Its events from the serial `start` on, as copies."""
        count, value, origin = self._count, self.value, self.origin
        form = _columns(count)
        fields = form.unpack_from(value, self.columns_at)
        epochs, arrivals, offsets, record_lengths, lengths, levels = (
            fields[i * count : (i + 1) * count] for i in range(6)
        )
        record_at = self.columns_at + form.size
        document_at = record_at + sum(record_lengths)
        for index in range(count):
            record_end = record_at + record_lengths[index]
            document_end = document_at + lengths[index]
            if self.first + index >= start:
                yield LoggedEvent(
                    epochs[index],
                    offsets[index],
                    arrivals[index],
                    levels[index],
                    bytes(value[record_at:record_end]),
                    bytes(value[document_at:document_end]),
                    origin,
                    self.first + index,
                )
            record_at, document_at = record_end, document_end


def page(
    cursor: lmdb.Cursor, start: int, max_events: int, max_bytes: int | None = None
) -> list[LoggedEvent]:
    """Up to `max_events` events from the serial `start` on, about `max_bytes` at the most.

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


@lru_cache(maxsize=1024)
def _columns(count: int) -> struct.Struct:
    return struct.Struct(f">{count}I{count}Q{count}Q{count}H{count}I{count}B")
