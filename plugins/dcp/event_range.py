"""Ranges of a sequence: the events that one packet, or the parts of one, carry (DCP D26-D32)."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple, Protocol, Self

import attrs
import msgspec

from broker.errors import ProtocolError
from broker.event.place import Mark
from broker.streams.contract import CarriedEvent
from broker.streams.dropped_count import DroppedCount
from plugins.dcp.omission import drop_level, is_known_level, is_omission

#: AN, level, bytes of the record, bytes of the document.
ENTRY: Final = struct.Struct(">QBII")
_MOST_LEVEL: Final = 2
_NO_MARK: Final[Mark] = (0, 0)


class SequenceKey(NamedTuple):
    """The events of one origin under one carrying pattern, in one epoch."""

    flow: str
    epoch: int


class Description(msgspec.Struct, array_like=True, frozen=True, dict=True):
    """A sequence, as a parent describes it to a child."""

    flow: str
    epoch: int
    origin_node: str
    """Address of the node that serves the origin's log."""
    begins_after: Mark = _NO_MARK
    """Mark in an earlier epoch: no event of the flow is between it and the sequence's begin."""

    @cached_property
    def key(self) -> SequenceKey:
        return SequenceKey(self.flow, self.epoch)


class IRange(Protocol):
    """A range of ANs with its events, or bytes."""

    @property
    def previous(self) -> int: ...
    @property
    def upto(self) -> int: ...
    @property
    def size(self) -> int:
        """Bytes in it."""

    def after(self, an: int) -> Self:
        """Return the part behind an AN that is within the range."""

    def until(self, an: int) -> Self:
        """Return the part up to an AN that is within the range."""

    def begin_at(self, previous: int) -> Self:
        """Return the range with an earlier begin: nothing is between."""

    def split(self, room: int) -> tuple[Self, Self | None]:
        """Return a first part of at most `room` bytes, if it can be divided so far; and the
        rest."""

    def without_events(self) -> Self:
        """Return the range with a statement that a queue policy dropped its events."""

    def single_events(self) -> Sequence[Self]:
        """Return a range for each event, without a statement about the ANs between them."""

    def digests(self) -> Sequence[tuple[int, int]]:
        """Return AN and hash of each event's document."""

    def adopt(self, others: Iterable[Self]) -> Self:
        """Return the range with the copies of events that are in others."""

    def add_events(self, others: Iterable[Self]) -> Self:
        """Return the range with the events of others that it lacks at its ANs."""


@attrs.define
class EventRange:
    """All events of a sequence in (previous, upto] that match the query of a link.

    Children with equal queries share one: it is cut and joined once for all of them.
    """

    previous: int
    upto: int
    events: Sequence[CarriedEvent] = ()
    entries: Sequence[bytes] = ()
    """The encoded events. Relays forward them as they came."""
    _body: bytes | None = attrs.field(default=None, eq=False, repr=False)
    size: int = attrs.field(init=False, eq=False, repr=False)
    """Bytes of the entries."""
    _pieces: tuple[int, Sequence[EventRange]] | None = attrs.field(
        default=None, init=False, eq=False, repr=False
    )
    """Result of `pieces`, with its room."""

    @property
    def body(self) -> bytes:
        """The joined entries."""
        if self._body is None:
            self._body = self.entries[0] if len(self.entries) == 1 else b"".join(self.entries)
        return self._body

    @size.default
    def _add_up(self) -> int:
        return sum(map(len, self.entries)) if self._body is None else len(self._body)

    def pieces(self, room: int) -> Sequence[EventRange]:
        """Return the range cut into parts of at most `room` bytes, or with one event."""
        if self._pieces is None or self._pieces[0] != room:
            self._pieces = room, self._cut(room)
        return self._pieces[1]

    def _cut(self, room: int) -> list[EventRange]:
        if len(self.entries) <= 1 or self.size <= room:
            return [self]
        found: list[EventRange] = []
        events, entries, begin, size = self.events, self.entries, 0, 0
        previous = self.previous
        for end, entry in enumerate(entries):
            if size + len(entry) > room and end > begin:
                upto = events[end - 1].mark[1]
                found.append(EventRange(previous, upto, events[begin:end], entries[begin:end]))
                previous, begin, size = upto, end, 0
            size += len(entry)
        found.append(EventRange(previous, self.upto, events[begin:], entries[begin:]))
        return found

    def after(self, an: int) -> EventRange:
        events = self.events
        first = next((n for n, each in enumerate(events) if each.mark[1] > an), len(events))
        return EventRange(an, self.upto, events[first:], self.entries[first:])

    def until(self, an: int) -> EventRange:
        count = sum(each.mark[1] <= an for each in self.events)
        return EventRange(self.previous, an, self.events[:count], self.entries[:count])

    def begin_at(self, previous: int) -> EventRange:
        return EventRange(previous, self.upto, self.events, self.entries, self._body)

    def split(self, room: int) -> tuple[EventRange, EventRange | None]:
        if len(self.entries) <= 1 or self.size <= room:
            return self, None
        total = 0
        for count, entry in enumerate(self.entries):
            total += len(entry)
            if total > room and count:
                break
        an = self.events[count - 1].mark[1]
        events, entries = self.events, self.entries
        return (
            EventRange(self.previous, an, events[:count], entries[:count]),
            EventRange(an, self.upto, events[count:], entries[count:]),
        )

    def single_events(self) -> list[EventRange]:
        return [
            EventRange(event.mark[1] - 1, event.mark[1], (event,), (entry,))
            for event, entry in zip(self.events, self.entries, strict=True)
        ]

    def omit(self, levels: Mapping[int, int]) -> EventRange:
        """Return the range with omissions of these levels in the places of events, by AN."""
        events, entries = list(self.events), list(self.entries)
        for n, event in enumerate(events):
            level = levels.get(event.mark[1])
            if level is not None:
                events[n] = CarriedEvent(event.mark, b"", b"", level)
                entries[n] = encode_entry(events[n])
        return EventRange(self.previous, self.upto, events, entries)

    def only(self, ans: Collection[int]) -> EventRange:
        """Return the range with the events of these ANs."""
        pairs = zip(self.events, self.entries, strict=True)
        kept = [(event, entry) for event, entry in pairs if event.mark[1] in ans]
        events, entries = [event for event, _ in kept], [entry for _, entry in kept]
        return EventRange(self.previous, self.upto, events, entries)

    def without_events(self) -> EventRange:
        kept = [event for event in self.events if not is_omission(event)]
        return self.omit({event.mark[1]: drop_level(event.level) for event in kept})

    def split_omissions(self) -> list[EventRange]:
        """Return the parts between omissions, and each omission as a range of its own."""
        if not any(map(is_omission, self.events)):
            return [self]
        parts: list[EventRange] = []
        rest = self
        for event in self.events:
            if is_omission(event):
                an = event.mark[1]
                if rest.previous < an - 1:
                    parts.append(rest.until(an - 1))
                parts.append(EventRange(an - 1, an, (event,), (encode_entry(event),)))
                rest = rest.after(an)
        if rest.previous < rest.upto:
            parts.append(rest)
        return parts

    @property
    def omission(self) -> CarriedEvent | None:
        """The omission that is all of the range."""
        is_alone = len(self.events) == 1 and is_omission(self.events[0])
        return self.events[0] if is_alone and self.upto - self.previous == 1 else None

    def digests(self) -> list[tuple[int, int]]:
        return [(event.mark[1], hash(event.document)) for event in self.events]

    def adopt(self, others: Iterable[EventRange]) -> EventRange:
        copies = {
            event.mark: (event, entry)
            for each in others
            for event, entry in zip(each.events, each.entries, strict=True)
        }
        own = zip(self.events, self.entries, strict=True)
        found = [copies.get(event.mark, (event, entry)) for event, entry in own]
        events, entries = [event for event, _ in found], [entry for _, entry in found]
        return EventRange(self.previous, self.upto, events, entries)

    def add_events(self, others: Iterable[EventRange]) -> EventRange:
        own = zip(self.events, self.entries, strict=True)
        found = {event.mark[1]: (event, entry) for event, entry in own}
        for each in others:
            for event, entry in zip(each.events, each.entries, strict=True):
                if self.previous < event.mark[1] <= self.upto:
                    found.setdefault(event.mark[1], (event, entry))
        if len(found) == len(self.events):
            return self
        pairs = [found[an] for an in sorted(found)]
        events, entries = [event for event, _ in pairs], [entry for _, entry in pairs]
        return EventRange(self.previous, self.upto, events, entries)

    @classmethod
    def of_events(cls, previous: int, upto: int, events: Sequence[CarriedEvent]) -> EventRange:
        return cls(previous, upto, events, [encode_entry(each) for each in events])


class StreamRange(NamedTuple):
    """Bytes of a stream: AN counts them (DCP D33)."""

    previous: int
    upto: int
    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)

    def after(self, an: int) -> StreamRange:
        return StreamRange(an, self.upto, self.data[an - self.previous :])

    def until(self, an: int) -> StreamRange:
        return StreamRange(self.previous, an, self.data[: an - self.previous])

    def begin_at(self, previous: int) -> StreamRange:
        raise ValueError("a stream has no ranges without bytes")

    def split(self, room: int) -> tuple[StreamRange, StreamRange | None]:
        if len(self.data) <= room:
            return self, None
        middle = self.previous + room
        return self.until(middle), self.after(middle)

    def without_events(self) -> StreamRange:
        raise ValueError("no policy drops bytes of a stream")

    def single_events(self) -> list[StreamRange]:
        """Return nothing: bytes of a stream have no meaning alone."""
        return []

    def digests(self) -> list[tuple[int, int]]:
        return []

    def adopt(self, others: Iterable[StreamRange]) -> StreamRange:
        return self

    def add_events(self, others: Iterable[StreamRange]) -> StreamRange:
        return self


def decode_stream_range(previous: int, upto: int, body: bytes) -> StreamRange:
    """Raises `ProtocolError` if the body has not the bytes of the range."""
    if upto - previous != len(body):
        raise ProtocolError(f"{len(body)} bytes in the range ({previous}, {upto}] of a stream")
    return StreamRange(previous, upto, body)


def encode_entry(event: CarriedEvent) -> bytes:
    """Return the bytes of an event in a packet."""
    _, record, document, level = event
    head = ENTRY.pack(event.mark[1], level, len(record), len(document))
    return b"".join((head, record, document))


def decode_range(previous: int, upto: int, epoch: int, body: bytes) -> EventRange:
    """Return the range whose entries are in a body.

    Raises `ProtocolError` for entries that are cut, do not ascend, or are outside of the range.
    """
    events: list[CarriedEvent] = []
    entries: list[bytes] = []
    start, size, last = 0, len(body), previous
    while start < size:
        if size - start < ENTRY.size:
            raise ProtocolError(f"{size - start} bytes behind the last event of a packet")
        an, level, record_bytes, document_bytes = ENTRY.unpack_from(body, start)
        begin = start + ENTRY.size
        middle, end = begin + record_bytes, begin + record_bytes + document_bytes
        if not last < an <= upto or end > size:
            raise ProtocolError(f"an event with the AN {an} in the range ({previous}, {upto}]")
        last = an
        if level > _MOST_LEVEL and (end > begin or not is_known_level(level)):
            raise ProtocolError(f"an event of the level {level}")
        events.append(CarriedEvent((epoch, an), body[begin:middle], body[middle:end], level))
        entries.append(body[start:end] if start or end < size else body)
        start = end
    return EventRange(previous, upto, events, entries, body)


def merge_ranges(ranges: Sequence[EventRange]) -> list[EventRange]:
    """Return the ranges with each run of adjacent ones as one."""
    merged: list[EventRange] = []
    run: list[EventRange] = []
    for each in (*ranges, None):
        if each is not None and (not run or run[-1].upto == each.previous):
            run.append(each)
            continue
        if len(run) == 1:
            merged += run
        elif run:
            events = [event for one in run for event in one.events]
            entries = [entry for one in run for entry in one.entries]
            merged.append(EventRange(run[0].previous, run[-1].upto, events, entries))
        run = [] if each is None else [each]
    return merged


def make_omissions(epoch: int, counts: Mapping[int, DroppedCount]) -> list[EventRange]:
    """Return a range for each event that queue policies of all parents dropped, by its AN."""
    return [
        EventRange.of_events(
            *(an - 1, an),
            [CarriedEvent((epoch, an), b"", b"", drop_level(each.rank, each.is_coalesced))],
        )
        for an, each in counts.items()
    ]
