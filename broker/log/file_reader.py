"""Reads of the log file, each in a transaction of its own.

A read ends before damage. One that would begin with damage raises `DamageFound`.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable

import lmdb

from broker.event.place import Mark
from broker.log.checksum import ValueDamaged
from broker.log.chunk import decode_key
from broker.log.chunk_table import NEVER_OLD
from broker.log.damage import DamageFound
from broker.log.deduplication import Publisher
from broker.log.file_size import FileSize
from broker.log.logged_event import LoggedEvent
from broker.log.own_key import OwnSigner
from broker.log.table_size import table_bytes
from broker.log.tables import Tables


class FileReader:
    _env: lmdb.Environment
    _tables: Tables
    _guard: threading.RLock
    _size: FileSize
    _signer: OwnSigner | None

    def _reading(self) -> lmdb.Transaction:
        self._size.check()
        return self._env.begin(buffers=True)

    def statements(self, kinds: Collection[bytes]) -> dict[tuple[bytes, str], bytes]:
        """See `HistoryTable`."""
        with self._guard, self._reading() as txn:
            return self._tables.histories.statements(txn, kinds)

    def read(self, start: int, max_events: int, max_bytes: int) -> list[LoggedEvent]:
        """Return up to `max_events` events of about `max_bytes` from the serial `start` on, or from
        the log's begin."""
        with self._guard, self._reading() as txn:
            return self._tables.chunks.read_page(txn, start, max_events, max_bytes)

    def read_origin(
        self, origin: str, after: Mark, max_events: int, max_bytes: int
    ) -> list[LoggedEvent]:
        """Return events for other nodes: own ones are signed."""
        found = self.read_unsigned(origin, after, max_events, max_bytes)
        self.sign_own(found)
        return found

    def sign_own(self, events: Iterable[LoggedEvent]) -> None:
        """Sign own events that have no proof yet, before they leave the node."""
        if self._signer is not None:
            self._signer.sign_unsigned(events)

    def read_unsigned(
        self, origin: str, after: Mark, max_events: int, max_bytes: int
    ) -> list[LoggedEvent]:
        """Return events that stay on this node: those without a proof get none."""
        found: list[LoggedEvent] = []
        with self._guard, self._reading() as txn:
            try:
                for chunk in self._tables.origins.chunks_after(txn, origin, after):
                    for event in chunk.events_from(chunk.first_after(after) or chunk.first):
                        found.append(event)
                        max_bytes -= event.size
                        if len(found) >= max_events or max_bytes <= 0:
                            return found
            except DamageFound:
                if not found:
                    raise
        return found

    def read_replica(
        self, origin: str, after: Mark, max_events: int, max_bytes: int
    ) -> list[LoggedEvent]:
        with self._guard, self._reading() as txn:
            return self._tables.replicas.read(txn, origin, after, max_events, max_bytes)

    def first_after(self, origin: str, mark: Mark) -> int:
        """Return the first serial after `mark`, or the next serial."""
        with self._guard, self._reading() as txn:
            found = self._tables.origins.first_serial_after(txn, origin, mark)
            return self._first_and_last(txn)[1] + 1 if found is None else found

    def first_at(self, arrival: int) -> int:
        """Return the first serial logged at `arrival` (ms since 1970) or later.

        Arrival times rise with serials.
        """
        chunks = self._tables.chunks
        with self._guard, self._reading() as txn, chunks.cursor(txn) as cursor:
            low, high = self._first_and_last(txn)
            high += 1
            while low < high:
                middle = (low + high) // 2
                chunk = chunks.chunk_holding(txn, cursor, middle)
                assert chunk is not None
                if chunk.arrival_at(middle) >= arrival:
                    high = middle
                else:
                    low = middle + 1
            return low

    def arrival_at(self, serial: int) -> int:
        """Return the time of logging at `serial` or next, or 0."""
        chunks = self._tables.chunks
        with self._guard, self._reading() as txn, chunks.cursor(txn) as cursor:
            chunk = chunks.chunk_holding(txn, cursor, serial)
            return 0 if chunk is None else chunk.arrival_at(max(serial, chunk.first)) % NEVER_OLD

    def position_before(self, serial: int) -> dict[str, Mark]:
        with self._guard, self._reading() as txn:
            return self._tables.origins.position_before(txn, serial)

    def stored_window(self, publisher: Publisher) -> bytes | None:
        """Raises `ValueDamaged`."""
        with self._guard, self._reading() as txn:
            return self._tables.marks.get(txn, publisher_key(publisher))

    def newest_incarnation(self, client_id: str) -> bytes | None:
        """Return None too for a damaged value."""
        with self._guard, self._reading() as txn:
            return self._tables.clients.get_or_none(txn, client_id.encode())

    def newest_incarnations(self) -> list[tuple[str, bytes]]:
        """Return all ClientIds with their values, without damaged ones."""
        with self._guard, self._reading() as txn:
            items = self._tables.clients.items(txn)
            return [(key.decode(), value) for key, value in items if value]

    def durables(self) -> list[tuple[bytes, bytes]]:
        with self._guard, self._reading() as txn:
            items = self._tables.durables.items(txn)
            return [(key, value) for key, value in items if value is not None]

    def damaged_durables(self) -> list[bytes]:
        with self._guard, self._reading() as txn:
            return [key for key, value in self._tables.durables.items(txn) if value is None]

    def _first_and_last(self, txn: lmdb.Transaction) -> tuple[int, int]:
        chunks = self._tables.chunks
        with chunks.cursor(txn) as cursor:
            oldest, newest = chunks.first_chunk(txn, cursor), chunks.last_chunk(txn, cursor)
            if oldest is None or newest is None:
                try:
                    stored = self._tables.meta.get(txn, b"last")
                except ValueDamaged:
                    # Serials are local to this log: a jump does no harm.
                    return 2**62 + 1, 2**62
                last = 0 if stored is None else decode_key(stored)
                return last + 1, last
            return oldest.first, newest.last

    def _event_bytes(self, txn: lmdb.Transaction) -> int:
        """Return the bytes that `max_bytes` bounds."""
        return table_bytes(txn, self._tables.events)


def publisher_key(publisher: Publisher) -> bytes:
    client_id, incarnation = publisher
    return client_id.encode() + b"\0" + incarnation.to_bytes(8, "big")
