"""Reading a log that a running node writes, from another process.

Each call is a transaction of its own that copies what it reads: one that stayed open would keep
pages that retention has freed from being used again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import lmdb

from broker.errors import LogUnavailable
from broker.event.place import Mark
from broker.store.archive.columns import ChunkColumns
from broker.store.chunks import page
from broker.store.kept import Kept, KeptSpan
from broker.store.origins import Origins
from broker.store.records import LoggedEvent

#: As large a map as the log's writer has: LMDB's own default would end at 10 MiB.
_AS_THE_WRITER = 0


def read_only(folder: Path, start: int, max_events: int) -> Sequence[LoggedEvent]:
    """Up to `max_events` events of a log, from the serial `start` on."""
    with (
        _opened(folder) as env,
        env.begin(db=env.open_db(b"events", create=False), buffers=True) as txn,
        txn.cursor() as cursor,
    ):
        return page(cursor, start, max_events)


class LogAlong:
    """A log that stays open for reading. Raises `LogUnavailable` where it can not be read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            self._env = _opened(folder)
            tables = {
                name: self._env.open_db(name, create=False)
                for name in (b"events", b"origins", b"kept", b"durables", b"meta")
            }
            with self._env.begin(db=tables[b"meta"]) as txn:
                self.origin = bytes(txn.get(b"origin", b"")).decode()
        except lmdb.Error as error:
            raise LogUnavailable(f"{folder} can not be read: {error}") from None
        self._durables = tables[b"durables"]
        self._origins = Origins(tables[b"origins"], tables[b"events"])
        self._kept = Kept(tables[b"kept"])

    def close(self) -> None:
        """Let go of it."""
        self._env.close()

    def extent(self) -> tuple[Mark, Mark]:
        """Of the log's own events: behind which mark they are there, and up to which."""
        with self._reading() as txn:
            since = self._origins.since(txn).get(self.origin, (0, 0))
            return since, self._origins.covered(txn).get(self.origin, (0, 0))

    def read(self, after: Mark, max_events: int, max_bytes: int) -> list[ChunkColumns]:
        """Own events behind `after`: at most so many, of about so many bytes."""
        found: list[ChunkColumns] = []
        with self._reading() as txn:
            for chunk in self._origins.chunks(txn, self.origin, after):
                start = chunk.after(after)
                if start is None:
                    continue
                found.append(ChunkColumns.of(chunk, start, max_events))
                max_events -= found[-1].count
                max_bytes -= len(found[-1].records) + len(found[-1].documents)
                if max_events <= 0 or max_bytes <= 0:
                    break
        return found

    def spans(self) -> Mapping[str, KeptSpan]:
        """What is kept of other origins."""
        with self._reading() as txn:
            return self._kept.spans(txn)

    def read_kept(
        self, origin: str, after: Mark, max_events: int, max_bytes: int
    ) -> list[LoggedEvent]:
        """The same as `read`, of what is kept of another origin."""
        with self._reading() as txn:
            return self._kept.read(txn, origin, after, max_events, max_bytes)

    def durables(self) -> dict[tuple[str, str], bytes]:
        """What is stored of durable subscriptions, by client and name."""
        found: dict[tuple[str, str], bytes] = {}
        with self._reading() as txn, txn.cursor(db=self._durables) as cursor:
            for key, value in cursor:
                client, _, name = bytes(key).partition(b"\0")
                found[client.decode(), name.decode()] = bytes(value)
        return found

    def change(self) -> int:
        """A number that is another one whenever something was committed."""
        return int(self._env.info()["last_txnid"])

    def _reading(self) -> lmdb.Transaction:
        try:
            try:
                return self._env.begin(buffers=True)
            except lmdb.MapResizedError:
                # Its writer was started again with more room.
                self._env.set_mapsize(_AS_THE_WRITER)
                return self._env.begin(buffers=True)
        except lmdb.Error as error:
            raise LogUnavailable(f"{self._folder} can not be read: {error}") from None


def _opened(folder: Path) -> lmdb.Environment:
    return lmdb.open(str(folder), readonly=True, max_dbs=8, max_readers=64, map_size=_AS_THE_WRITER)
