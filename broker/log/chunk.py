"""Chunks of neighbouring events of one origin, between nodes and in the log.

A chunk is a count u32, the length of the origin's name u8 and the name, then columns with an entry
for each event: `epoch u32`, `arrival u64` (ms since 1970), `offset u64`, `record length u16`,
`document length u32`, `level u8`; then all records, then all documents. Integers are big-endian. In
the log the key is the serial of the first event as u64.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, groupby
from operator import attrgetter

from broker.event.place import Mark
from broker.log.checksum import Buffer
from broker.log.logged_event import EVENT_OVERHEAD, LoggedEvent

#: Approximate most bytes, unless one event is larger. Larger chunks do not make commits faster, and
#: a reader must map a whole chunk.
CHUNK_BYTES = 60 * 1024

_KEY = struct.Struct(">Q")
KEY_BYTES = _KEY.size
_HEAD = struct.Struct(">IB")
_EPOCH = struct.Struct(">I")
_ARRIVAL = struct.Struct(">Q")
_OFFSET = struct.Struct(">Q")
_origin = attrgetter("origin")
_stored = attrgetter("epoch", "arrival", "offset", "level", "record", "document")


def encode_key(serial: int) -> bytes:
    """Keys sort as serials do."""
    return _KEY.pack(serial)


def decode_key(key: Buffer) -> int:
    (serial,) = _KEY.unpack(key)
    return int(serial)


def split_by_size(most: int, events: Sequence[LoggedEvent]) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of events of about `most` bytes; one event may have more."""
    if len(events) == 1:
        yield 0, 1
        return
    start = sent = before = 0
    sizes = [len(event.record) + len(event.document) + EVENT_OVERHEAD for event in events]
    for i, size in enumerate(accumulate(sizes)):
        if size - sent > most and i > start:
            yield start, i
            start, sent = i, before
        before = size
    if events:
        yield start, len(events)


def split_into_chunks(events: Sequence[LoggedEvent]) -> Iterator[Sequence[LoggedEvent]]:
    """Yield groups of neighbouring events, one for each chunk."""
    if len(events) == 1:
        yield events
        return
    if len(set(map(_origin, events))) == 1:
        runs: Iterator[Sequence[LoggedEvent]] = iter((events,))
    else:
        runs = (list(run) for _, run in groupby(events, key=_origin))
    for run in runs:
        for start, end in split_by_size(CHUNK_BYTES, run):
            yield run[start:end]


def encode_chunk(events: Sequence[LoggedEvent]) -> bytes:
    """Return the value to store for events of one origin."""
    epochs, arrivals, offsets, levels, records, documents = zip(*map(_stored, events), strict=True)
    columns = _columns(len(events)).pack(
        *epochs, *arrivals, *offsets, *map(len, records), *map(len, documents), *levels
    )
    name = events[0].origin.encode()
    head = _HEAD.pack(len(events), len(name))
    return b"".join((head, name, columns, *records, *documents))


def encode_columns(
    origin: str, count: int, columns: Sequence[bytes], contents: Sequence[Buffer]
) -> bytes:
    """Return the same from encoded columns, records and documents."""
    name = origin.encode()
    return b"".join((_HEAD.pack(count, len(name)), name, *columns, *contents))


class Chunk:
    """A stored chunk; only the requested parts are read."""

    def __init__(self, first: int, value: Buffer, at: int = 0) -> None:
        """`first` is the serial of the first event; the chunk begins at `at`."""
        count, name_length = _HEAD.unpack_from(value, at)
        self.first = first
        self.last: int = first + count - 1
        self._count: int = count
        self._name_at = at + _HEAD.size
        self.columns_at = self._name_at + name_length
        """Offset of the columns in the value."""
        self.value = value
        self._bounds: list[int] = []

    @property
    def is_exact(self) -> bool:
        """True if the length is as stated. Raises `struct.error` if the columns are incomplete."""
        count, form = self._count, _columns(self._count)
        lengths = form.unpack_from(self.value, self.columns_at)[3 * count : 5 * count]
        return bool(len(self.value) == self.columns_at + form.size + sum(lengths))

    @property
    def origin(self) -> str:
        return bytes(self.value[self._name_at : self.columns_at]).decode()

    def mark_at(self, serial: int) -> Mark:
        offsets = self.columns_at + self._count * (_EPOCH.size + _ARRIVAL.size)
        (offset,) = _OFFSET.unpack_from(self.value, offsets + (serial - self.first) * _OFFSET.size)
        (epoch,) = _EPOCH.unpack_from(
            self.value, self.columns_at + (serial - self.first) * _EPOCH.size
        )
        return int(epoch), int(offset)

    def arrival_at(self, serial: int) -> int:
        """Return the time of logging, ms since 1970."""
        arrivals = self.columns_at + self._count * _EPOCH.size
        (arrival,) = _ARRIVAL.unpack_from(
            self.value, arrivals + (serial - self.first) * _ARRIVAL.size
        )
        return int(arrival)

    def first_after(self, mark: Mark) -> int | None:
        """Return the first serial after `mark`, or None."""
        if self.mark_at(self.last) <= mark:
            return None
        serials = range(self.first, self.last + 1)
        return next(serial for serial in serials if self.mark_at(serial) > mark)

    def content_bounds(self) -> list[int]:
        """Return the first record's offset, then the ends of the records, then of the documents."""
        if not self._bounds:
            count, form = self._count, _columns(self._count)
            lengths = form.unpack_from(self.value, self.columns_at)[3 * count : 5 * count]
            self._bounds = list(accumulate(lengths, initial=self.columns_at + form.size))
        return self._bounds

    def records(self) -> Iterator[tuple[int, bytes]]:
        """Yield the serial and the record of each event."""
        bounds = self.content_bounds()
        for index, serial in enumerate(range(self.first, self.last + 1)):
            yield serial, bytes(self.value[bounds[index] : bounds[index + 1]])

    def events_from(self, start: int) -> Iterator[LoggedEvent]:
        """Yield copies of the events from the serial `start` on."""
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


def column_length(count: int) -> int:
    return _columns(count).size


@lru_cache(maxsize=1024)
def _columns(count: int) -> struct.Struct:
    return struct.Struct(f">{count}I{count}Q{count}Q{count}H{count}I{count}B")
