"""Durable table of what one input has published: keys of events, files, state of addresses.

An SQLite file. Beyond the bound the entries that were used longest ago go.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import Final, TypeVar

from broker.errors import TableUnavailable
from broker.private_files import make_private_folder, open_private

DEFAULT_ENTRIES: Final = 1_000_000
#: Bytes of a value; an entry without one takes about 80 bytes of the file.
MAX_VALUE: Final = 4_096
#: Entries in memory that are not written yet.
MAX_UNWRITTEN: Final = 10_000
_KEY_BYTES: Final = 16
#: "xmlp", as SQLite's application id.
_APPLICATION: Final = 0x786D6C70
_VERSION: Final = 1
_SCHEMA: Final = """
CREATE TABLE entries (used INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, value BLOB NOT NULL)
"""

_T = TypeVar("_T")


def table_key(*parts: str | bytes) -> bytes:
    """Return the key of an entry; equal parts give equal keys."""
    digest = blake2b(digest_size=_KEY_BYTES)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.digest()


class PublishedTable:
    """Entries are durable after `flush`. Methods raise `TableUnavailable`.

    One process uses a file, its threads at the same time.
    """

    def __init__(self, path: Path, most: int = DEFAULT_ENTRIES) -> None:
        """`most` is the bound of the entries."""
        self.path = path
        self._most = most
        self._lock = threading.Lock()
        self._unwritten: dict[bytes, bytes] = {}
        self._database = self._guard(self._open)
        self._last_use, self._count = self._guard(self._measure)

    def __len__(self) -> int:
        return self._count

    def find(self, key: bytes) -> bytes | None:
        """Return the entry's value, and mark it as used."""
        with self._lock:
            if key in self._unwritten:
                return self._unwritten[key]
            row = self._guard(
                lambda: self._database.execute(
                    "SELECT used, value FROM entries WHERE key = ?", (key,)
                ).fetchone()
            )
            if row is None:
                return None
            used, value = row
            # Others are far from being the oldest: their use need not be written.
            if used <= self._last_use - self._most // 2:
                self._put(key, value)
            return bytes(value)

    def record(self, key: bytes, value: bytes = b"") -> None:
        if len(value) > MAX_VALUE:
            raise ValueError(f"a value has at most {MAX_VALUE} bytes")
        with self._lock:
            self._put(key, value)

    def flush(self) -> None:
        """Write all entries durably, in one transaction."""
        with self._lock:
            self._flush()

    def close(self) -> None:
        """Close the file without `flush`."""
        with self._lock:
            self._database.close()

    def _put(self, key: bytes, value: bytes) -> None:
        self._unwritten[key] = value
        if len(self._unwritten) >= MAX_UNWRITTEN:
            self._flush()

    def _flush(self) -> None:
        if self._unwritten:
            self._last_use, self._count = self._guard(self._write)
            self._unwritten.clear()

    def _open(self) -> sqlite3.Connection:
        make_private_folder(self.path.parent)
        # SQLite gives the mode of this file to those beside it.
        with open(self.path, "ab", opener=open_private):
            pass
        database = sqlite3.connect(
            self.path, timeout=0, isolation_level=None, check_same_thread=False
        )
        try:
            # From the first access on, no other process reads or writes the file.
            database.execute("PRAGMA locking_mode = EXCLUSIVE")
            database.execute("PRAGMA synchronous = FULL")
            database.execute("BEGIN EXCLUSIVE")
            self._check_format(database)
            database.execute("COMMIT")
            database.execute("PRAGMA journal_mode = WAL")
        except BaseException:
            database.close()
            raise
        return database

    def _check_format(self, database: sqlite3.Connection) -> None:
        found = tuple(
            database.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("application_id", "user_version")
        )
        if found == (0, 0) and not database.execute("SELECT * FROM sqlite_master").fetchone():
            database.execute(f"PRAGMA application_id = {_APPLICATION}")
            database.execute(f"PRAGMA user_version = {_VERSION}")
            database.execute(_SCHEMA)
        elif found != (_APPLICATION, _VERSION):
            raise sqlite3.DatabaseError("it is another database, or of another version")

    def _measure(self) -> tuple[int, int]:
        found = self._database.execute("SELECT max(used), count(*) FROM entries").fetchone()
        return found[0] or 0, found[1]

    def _write(self) -> tuple[int, int]:
        last_use, count = self._last_use, self._count
        database = self._database
        with closing(database.cursor()) as cursor:
            cursor.execute("BEGIN")
            try:
                for key, value in self._unwritten.items():
                    cursor.execute("DELETE FROM entries WHERE key = ?", (key,))
                    last_use, count = last_use + 1, count + 1 - cursor.rowcount
                    cursor.execute("INSERT INTO entries VALUES (?, ?, ?)", (last_use, key, value))
                if count > self._most:
                    cursor.execute(
                        "DELETE FROM entries WHERE used IN "
                        "(SELECT used FROM entries ORDER BY used LIMIT ?)",
                        (count - self._most,),
                    )
                    count -= cursor.rowcount
                cursor.execute("COMMIT")
            except BaseException:
                if database.in_transaction:
                    database.rollback()
                raise
        return last_use, count

    def _guard(self, work: Callable[[], _T]) -> _T:
        try:
            return work()
        except (sqlite3.Error, OSError) as error:
            code = getattr(error, "sqlite_errorname", "")
            if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
                reason = "another process uses it; give it time to end, or another --published"
            elif isinstance(error, sqlite3.DatabaseError) and not isinstance(
                error, sqlite3.OperationalError
            ):
                reason = f"{error}; without the file everything is published once more"
            else:
                reason = getattr(error, "strerror", None) or str(error)
            raise TableUnavailable(f"the table of published keys {self.path}: {reason}") from None
