"""Where the events of each origin lie in the log, and up to which place the log covers an origin.

One table with three kinds of entry, integers big-endian:

- `c` origin -> `epoch u32, offset u64`: the log has all that it wanted of this origin up to there;
- `s` origin -> `epoch u32, offset u64`: from behind there on, since older events were never wanted,
  or had to go;
- `p` origin NUL `epoch u32, offset u64` -> `serial u64`: a chunk begins with this place.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import lmdb

from broker.event.place import Mark
from broker.store.chunks import Buffer, Chunk, decode_key, encode_key
from broker.store.records import LoggedEvent

_MARK = struct.Struct(">IQ")
_COVERED = b"c"
_SINCE = b"s"
_PLACES = b"p"


class Origins:
    """The table, as transactions of the log use it; `table` and `events` are LMDB's handles."""

    def __init__(self, table: Any, events: Any) -> None:
        self._table = table
        self._events = events

    # ------------------------------------------------------------------ writing

    def add(self, txn: lmdb.Transaction, chunk: Sequence[LoggedEvent]) -> None:
        """A chunk was written."""
        first = chunk[0]
        txn.put(_key(first.origin, first.mark), encode_key(first.serial), db=self._table)

    def remove(self, txn: lmdb.Transaction, chunk: Chunk) -> tuple[str, Mark]:
        """A chunk goes: of its origin the log now begins behind the mark that is returned."""
        origin, last = chunk.origin, chunk.mark(chunk.last)
        txn.delete(_key(origin, chunk.mark(chunk.first)), db=self._table)
        self.begin(txn, origin, last)
        return origin, last

    def begin(self, txn: lmdb.Transaction, origin: str, mark: Mark) -> None:
        """The log has what it wants of an origin from behind `mark` on, if not from later on."""
        key = _SINCE + origin.encode()
        known = txn.get(key, db=self._table)
        if known is None or _MARK.unpack(known) < mark:
            txn.put(key, _MARK.pack(*mark), db=self._table)

    def cover(self, txn: lmdb.Transaction, origin: str, mark: Mark) -> None:
        """The log has all that it wants of an origin, up to `mark`."""
        txn.put(_COVERED + origin.encode(), _MARK.pack(*mark), db=self._table)

    # ------------------------------------------------------------------ reading

    def covered(self, txn: lmdb.Transaction) -> dict[str, Mark]:
        """Up to where each origin is covered."""
        return self._marks(txn, _COVERED)

    def since(self, txn: lmdb.Transaction) -> dict[str, Mark]:
        """Behind which mark the log begins, of origins of which it has not all."""
        return self._marks(txn, _SINCE)

    def _marks(self, txn: lmdb.Transaction, kind: bytes) -> dict[str, Mark]:
        found: dict[str, Mark] = {}
        with txn.cursor(db=self._table) as cursor:
            if cursor.set_range(kind):
                for key, value in cursor:
                    name = bytes(key)
                    if not name.startswith(kind):
                        break
                    epoch, offset = _MARK.unpack(value)
                    found[name[1:].decode()] = (epoch, offset)
        return found

    def after(self, txn: lmdb.Transaction, origin: str, mark: Mark) -> int | None:
        """The serial of the origin's first event behind `mark`; None if there is none."""
        for chunk in self.chunks(txn, origin, mark):
            return chunk.after(mark)
        return None

    def chunks(self, txn: lmdb.Transaction, origin: str, mark: Mark) -> Iterator[Chunk]:
        """The chunks of an origin with events behind `mark`, in their order."""
        prefix = _prefix(origin)
        with (
            txn.cursor(db=self._table) as cursor,
            txn.cursor(db=self._events) as events,
        ):
            if not cursor.set_range(_key(origin, (mark[0], mark[1] + 1))):
                if not cursor.last():
                    return
                back = True
            else:
                back = cursor.prev()
            # The chunk that begins before the mark may end behind it.
            if back and bytes(cursor.key()).startswith(prefix):
                chunk = _chunk(events, cursor.value())
                if chunk is not None and chunk.mark(chunk.last) > mark:
                    yield chunk
            if back and not cursor.next():
                return
            if not back:
                cursor.first()
            while bytes(cursor.key()).startswith(prefix):
                chunk = _chunk(events, cursor.value())
                if chunk is not None:
                    yield chunk
                if not cursor.next():
                    return

    def position_before(self, txn: lmdb.Transaction, serial: int) -> dict[str, Mark]:
        """For each origin the place of its last event before `serial`, where there is one."""
        found: dict[str, Mark] = {}
        with (
            txn.cursor(db=self._table) as cursor,
            txn.cursor(db=self._events) as events,
        ):
            more = cursor.last()
            while more and bytes(cursor.key()).startswith(_PLACES):
                origin = _origin_of(bytes(cursor.key()))
                if origin not in found and decode_key(cursor.value()) < serial:
                    chunk = _chunk(events, cursor.value())
                    if chunk is not None:
                        found[origin] = chunk.mark(min(chunk.last, serial - 1))
                        cursor.set_range(_prefix(origin))
                more = cursor.prev()
        return found


def _prefix(origin: str) -> bytes:
    return _PLACES + origin.encode() + b"\0"


def _key(origin: str, mark: Mark) -> bytes:
    return _prefix(origin) + _MARK.pack(*mark)


def _origin_of(key: bytes) -> str:
    return key[1 : -_MARK.size - 1].decode()


def _chunk(events: lmdb.Cursor, serial: Buffer) -> Chunk | None:
    return Chunk.under(events) if events.set_key(bytes(serial)) else None
