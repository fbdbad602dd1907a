"""Chunks as the log stores them: with checksums for the head and each event.

A value is four bytes `MAGIC`, the checksum of the head u64, the count u32, the checksum u64 of each
event's record and document, and the chunk. The head's checksum covers the key and everything
between itself and the records, so damage in a document is confined to its event. Format 3 stored
the chunk alone, unchecked.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from operator import eq

from broker.event.place import Mark
from broker.log.checksum import Buffer, checksum_of, event_checksum
from broker.log.chunk import Chunk, column_length, encode_chunk
from broker.log.damage import Damage, DamageFound, DamageKind, Span
from broker.log.logged_event import LoggedEvent

#: No chunk of format 3 begins so: it would have four billion events.
MAGIC = b"\xf5xC4"
_HEAD = struct.Struct(">4sQI")
_COVERED_FROM = 12


class HeadDamaged(Exception):
    """The head of a chunk fails its checksum."""


def encode_stored_chunk(
    key: bytes, events: Sequence[LoggedEvent], failing: Mapping[int, int] | None = None
) -> bytes:
    """`failing` are the checksums, by index, of events that stay damaged."""
    checksums = []
    for event in events:
        checksums.append(checksum_of(event.document, checksum_of(event.record)))
    for index, checksum in (failing or {}).items():
        checksums[index] = checksum
    chunk = encode_chunk(events)
    count = len(events)
    contents = 0
    for event in events:
        contents += len(event.record) + len(event.document)
    head_end = len(chunk) - contents
    covered = struct.pack(f">I{count}Q", count, *checksums)
    head = checksum_of(covered + chunk[:head_end], checksum_of(key))
    return b"".join((MAGIC, head.to_bytes(8, "big"), covered, chunk))


class StoredChunk(Chunk):
    """Raises `HeadDamaged`."""

    def __init__(self, table: str, key: bytes, first: int, value: Buffer) -> None:
        self.table = table
        self.key = key
        self.has_checksums = bytes(value[:4]) == MAGIC
        """False for a chunk of format 3."""
        self._checksums: Sequence[int] = ()
        try:
            if self.has_checksums:
                self._open(first, value)
            else:
                super().__init__(first, value)
                if self.last < first or not self.is_exact or not self.origin:
                    raise HeadDamaged("a chunk that is not exact")
        except (struct.error, ValueError, IndexError, OverflowError, MemoryError) as error:
            raise HeadDamaged(str(error)) from None

    def _open(self, first: int, value: Buffer) -> None:
        _, checksum, count = _HEAD.unpack_from(value)
        at = _HEAD.size + 8 * count
        if at > len(value):
            raise HeadDamaged("a chunk that is too short")
        super().__init__(first, value, at)
        if self.last != first + count - 1:
            raise HeadDamaged("two counts")
        covered = value[_COVERED_FROM : self.columns_at + column_length(count)]
        if checksum_of(covered, checksum_of(self.key)) != checksum:
            raise HeadDamaged("the head fails its checksum")
        self._checksums = struct.unpack_from(f">{count}Q", value, _HEAD.size)

    def checksum_at(self, serial: int) -> int | None:
        """Return None in a chunk of format 3."""
        return self._checksums[serial - self.first] if self._checksums else None

    def is_intact(self, event: LoggedEvent) -> bool:
        checksums = self._checksums
        return not checksums or checksums[event.serial - self.first] == event_checksum(
            event.record, event.document
        )

    def events_from(self, start: int) -> Iterator[LoggedEvent]:
        """Raises `DamageFound` at the first damaged event."""
        checksums, first = self._checksums, self.first
        for event in super().events_from(start):
            if checksums and checksums[event.serial - first] != checksum_of(
                event.document, checksum_of(event.record)
            ):
                raise DamageFound(self._damage_at(event.serial))
            yield event

    def all_events(self) -> list[LoggedEvent]:
        """Return damaged events too."""
        return list(super().events_from(self.first))

    def first_damage(self, start: int) -> Damage | None:
        expected = list(self._checksums[start - self.first :])
        if not expected:
            return None
        value, at, count = self.value, start - self.first, len(self._checksums)
        bounds = self.content_bounds()
        records, documents = bounds[at : count + 1], bounds[count + at :]
        # No event objects: the archiver checks all that it reads.
        found = [
            checksum_of(value[begin:end], checksum_of(value[record:record_end]))
            for record, record_end, begin, end in zip(
                records, records[1:], documents, documents[1:], strict=False
            )
        ]
        if found == expected:
            return None
        return self._damage_at(start + list(map(eq, found, expected)).index(False))

    def damages(self) -> Iterator[Damage]:
        at = self.first
        while at <= self.last and (found := self.first_damage(at)):
            yield found
            at = found.last + 1

    def _damage_at(self, serial: int) -> Damage:
        last = serial
        for event in super().events_from(serial):
            if self.is_intact(event):
                break
            last = event.serial
        marks = tuple(self.mark_at(each) for each in range(serial, last + 1))
        return Damage(
            *(self.table, self.key, serial, last, DamageKind.EVENT),
            spans=(span_of(self.origin, marks),),
            marks=marks,
        )


def span_of(origin: str, marks: Sequence[Mark]) -> Span:
    epoch, offset = marks[0]
    return Span(origin, (epoch, offset - 1), marks[-1])
