"""The `events` table: serials are gapless, so a missing chunk is noticed too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import lmdb

from broker.event.place import Mark
from broker.log.chunk import decode_key, encode_key
from broker.log.chunk_places import ChunkPlaces, all_places
from broker.log.damage import Damage, DamageFound, DamageKind, Span
from broker.log.logged_event import LoggedEvent
from broker.log.stored_chunk import HeadDamaged, StoredChunk, span_of

EVENTS = "events"
#: Most serials of a chunk; assumed if nothing shows its end.
MAX_SERIALS = 65_536
#: Arrival time without intact neighbours: retention leaves the chunk.
NEVER_OLD = 2**63


class UnreadableChunk:
    """Placeholder for a chunk that is missing, or whose head is damaged."""

    def __init__(self, first: int, last: int, damage: Damage, arrival: int) -> None:
        self.first = first
        self.last = last
        self.damage = damage
        self._arrival = arrival

    @property
    def origin(self) -> str:
        return self.damage.origin

    def mark_at(self, serial: int) -> Mark:
        """Return the place at a serial; if unknown, a later one."""
        marks = self.damage.marks
        return marks[serial - self.first] if marks else self.damage.upto

    def arrival_at(self, _: int) -> int:
        """Return the arrival time of a neighbour."""
        return self._arrival

    def first_after(self, mark: Mark) -> int | None:
        serials = range(self.first, self.last + 1)
        return next((serial for serial in serials if self.mark_at(serial) > mark), None)

    def first_damage(self, _: int) -> Damage:
        return self.damage

    def events_from(self, _: int) -> Iterator[LoggedEvent]:
        raise DamageFound(self.damage)


AnyChunk: TypeAlias = StoredChunk | UnreadableChunk


class ChunkTable:
    """`table` and `origins` are handles of LMDB."""

    def __init__(self, table: Any, origins: Any) -> None:
        self.table = table
        self._origins = origins
        self._places: dict[int, ChunkPlaces | None] = {}
        """Places of damaged chunks, which require a search of the whole table of origins."""

    def cursor(self, txn: lmdb.Transaction) -> lmdb.Cursor:
        return txn.cursor(db=self.table)

    def chunk_at(self, txn: lmdb.Transaction, cursor: lmdb.Cursor) -> AnyChunk:
        key = bytes(cursor.key())
        first = decode_key(key)
        try:
            return StoredChunk(EVENTS, key, first, cursor.value())
        except HeadDamaged:
            return self.unreadable_chunk(txn, first, DamageKind.HEAD)

    def chunk_from(self, txn: lmdb.Transaction, cursor: lmdb.Cursor, serial: int) -> AnyChunk:
        if cursor.set_key(encode_key(serial)):
            return self.chunk_at(txn, cursor)
        return self.unreadable_chunk(txn, serial, DamageKind.MISSING)

    def chunk_holding(
        self, txn: lmdb.Transaction, cursor: lmdb.Cursor, serial: int
    ) -> AnyChunk | None:
        """Return the first chunk if the log begins after `serial`, None beyond the end. The cursor
        is at the chunk, or after a missing one."""
        if cursor.set_range(encode_key(serial)):
            if decode_key(cursor.key()) == serial or not cursor.prev():
                if not cursor.key():
                    cursor.first()
                return self.chunk_at(txn, cursor)
        elif not cursor.last():
            return None
        before = self.chunk_at(txn, cursor)
        if before.first > serial:
            # A damaged page misled the search.
            return self.unreadable_chunk(txn, serial, DamageKind.MISSING)
        if before.last >= serial:
            return before
        if not cursor.next():
            return None
        # The next chunk begins later than it should.
        return self.unreadable_chunk(txn, before.last + 1, DamageKind.MISSING)

    def first_chunk(self, txn: lmdb.Transaction, cursor: lmdb.Cursor) -> AnyChunk | None:
        return self.chunk_at(txn, cursor) if cursor.first() else None

    def last_chunk(self, txn: lmdb.Transaction, cursor: lmdb.Cursor) -> AnyChunk | None:
        return self.chunk_at(txn, cursor) if cursor.last() else None

    def read_page(
        self, txn: lmdb.Transaction, start: int, max_events: int, max_bytes: int | None = None
    ) -> list[LoggedEvent]:
        """Return up to `max_events` events from the serial `start` on, of about `max_bytes`.

        The page begins later if the log does, and ends before damage. Raises `DamageFound` if it
        would begin with damage.
        """
        events: list[LoggedEvent] = []
        room = max_bytes
        with self.cursor(txn) as cursor:
            chunk = self.chunk_holding(txn, cursor, start)
            try:
                while chunk is not None:
                    for event in chunk.events_from(start):
                        events.append(event)
                        if len(events) >= max_events:
                            return events
                        if room is not None:
                            room -= event.size
                            if room <= 0:
                                return events
                    follows = chunk.last + 1
                    chunk = self.chunk_at(txn, cursor) if cursor.next() else None
                    if chunk is not None and chunk.first > follows:
                        chunk = self.unreadable_chunk(txn, follows, DamageKind.MISSING)
            except DamageFound:
                if not events:
                    raise
        return events

    def unreadable_chunk(
        self, txn: lmdb.Transaction, first: int, kind: DamageKind
    ) -> UnreadableChunk:
        places = self._find_places(txn, first)
        before, last, follows = self._neighbours(txn, first)
        marks: tuple[Mark, ...] = ()
        spans: tuple[Span, ...]
        if places is not None and places.count:
            marks = places.marks
            last = first + places.count - 1
            spans = (span_of(places.origin, marks),)
        elif places is not None:
            # Format 3: up to the origin's next chunk.
            upto = self._next_place(txn, places)
            spans = (Span(places.origin, (places.first[0], places.first[1] - 1), upto),)
        else:
            spans = self._candidate_spans(txn, first, last)
            if len(spans) == 1 and spans[0].upto[1] - spans[0].after[1] == last - first + 1:
                # The range fits exactly, so these are the places.
                span = spans[0]
                offsets = range(span.after[1] + 1, span.upto[1] + 1)
                marks = tuple((span.upto[0], offset) for offset in offsets)
        damage = Damage(EVENTS, encode_key(first), first, last, kind, spans, marks)
        arrival = follows if before is None else before
        return UnreadableChunk(first, last, damage, NEVER_OLD if arrival is None else arrival)

    def _neighbours(self, txn: lmdb.Transaction, first: int) -> tuple[int | None, int, int | None]:
        """Return the arrival time before, the last serial, and the arrival time after."""
        before = after = None
        last = first + MAX_SERIALS - 1
        with self.cursor(txn) as cursor:
            more = cursor.set_range(encode_key(first + 1))
            if more:
                last = decode_key(cursor.key()) - 1
            while more and after is None:
                chunk = self._intact_chunk(cursor)
                after = None if chunk is None else chunk.arrival_at(chunk.first)
                more = chunk is None and cursor.next()
            more = cursor.prev() if cursor.set_range(encode_key(first)) else cursor.last()
            while more and before is None:
                chunk = self._intact_chunk(cursor)
                before = None if chunk is None else chunk.arrival_at(chunk.last)
                more = chunk is None and cursor.prev()
        return before, last, after

    def _intact_chunk(self, cursor: lmdb.Cursor) -> StoredChunk | None:
        key = bytes(cursor.key())
        try:
            return StoredChunk(EVENTS, key, decode_key(key), cursor.value())
        except HeadDamaged:
            return None

    def _find_places(self, txn: lmdb.Transaction, serial: int) -> ChunkPlaces | None:
        if serial not in self._places:
            if len(self._places) >= 1_024:
                self._places.clear()
            entries = (places for _, places in all_places(txn, self._origins))
            self._places[serial] = next(
                (each for each in entries if each is not None and each.serial == serial), None
            )
        return self._places[serial]

    def _next_place(self, txn: lmdb.Transaction, places: ChunkPlaces) -> Mark:
        upto: Mark | None = None
        for _, each in all_places(txn, self._origins):
            if each is not None and each.origin == places.origin and each.first > places.first:
                epoch, offset = each.first
                upto = (epoch, offset - 1)
                break
        return upto if upto is not None else (places.first[0], places.first[1] + MAX_SERIALS)

    def _candidate_spans(self, txn: lmdb.Transaction, first: int, last: int) -> tuple[Span, ...]:
        """Return the ranges that the chunk may have contained."""
        before: dict[str, Mark] = {}
        behind: dict[str, Mark] = {}
        for _, each in all_places(txn, self._origins):
            if each is None:
                continue
            if each.serial < first:
                before[each.origin] = max(each.last, before.get(each.origin, each.last))
            elif each.serial > last and each.origin not in behind:
                epoch, offset = each.first
                behind[each.origin] = (epoch, offset - 1)
        spans = []
        for origin in before.keys() | behind.keys():
            after = before.get(origin, (0, 0))
            upto = behind.get(origin, (after[0], after[1] + MAX_SERIALS))
            if upto[1] > after[1]:
                spans.append(Span(origin, after, upto))
        return tuple(sorted(spans, key=lambda span: span.origin))

    def arrivals_around(self, txn: lmdb.Transaction, first: int) -> tuple[int, int]:
        """Return the bounds of a chunk's arrival times."""
        before, _, after = self._neighbours(txn, first)
        return before or 0, NEVER_OLD - 1 if after is None else after

    def clear_places(self) -> None:
        """Clear the cache after a change of the table of origins."""
        self._places.clear()
