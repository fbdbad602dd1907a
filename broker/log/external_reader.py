"""Reads of a log that a running node writes, from another process.

Each call is its own transaction: an open one would keep freed pages from being used again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import lmdb

from broker.archive.chunk_columns import ChunkColumns
from broker.errors import LogCorrupt, LogUnavailable
from broker.event.place import Mark
from broker.log.archive_reads import read_columns, read_moved
from broker.log.file_size import FileSize
from broker.log.history import HistoryChain
from broker.log.log_verification import Verification
from broker.log.logged_event import LoggedEvent
from broker.log.page_check import REPAIR_ADVICE, check_metas, check_pages
from broker.log.page_file import Meta
from broker.log.replica_table import ReplicaSpan
from broker.log.startup_repair import read_origin
from broker.log.tables import MAX_TABLES, Tables

#: As large as the writer's map: LMDB's default ends at 10 MiB.
_MAP_SIZE_OF_WRITER = 0


def read_events(folder: Path, start: int, max_events: int) -> Sequence[LoggedEvent]:
    with _open_environment(folder) as env:
        tables = Tables(env, create=False)
        with env.begin(buffers=True) as txn:
            return tables.chunks.read_page(txn, start, max_events)


@contextmanager
def pin_commit(folder: Path) -> Iterator[tuple[Verification, Meta]]:
    """Yield the file, and the meta page of a commit whose pages stay unchanged. Raises
    `LogUnavailable`."""
    with _open_environment(folder) as env:
        for _ in range(100):
            with env.begin() as txn:
                verification = Verification(folder)
                try:
                    for meta in verification.file.metas:
                        if meta.transaction == txn.id():
                            yield verification, meta
                            return
                finally:
                    verification.close()
    raise LogUnavailable(f"{folder} is written too fast to be verified: stop the node first")


class ExternalReader:
    """Raises `LogUnavailable`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            check_length(folder)
            self._env = _open_environment(folder)
            self._size = FileSize(folder)
            self._tables = Tables(self._env, create=False)
            with self._env.begin() as txn:
                self.origin = read_origin(txn, self._tables, folder)
        except lmdb.Error as error:
            raise LogUnavailable(f"{folder} can not be read: {error}") from None

    def close(self) -> None:
        self._env.close()

    def own_extent(self) -> tuple[Mark, Mark]:
        with self._reading() as txn:
            since = self._tables.origins.begins_after(txn).get(self.origin, (0, 0))
            return since, self._tables.origins.covered(txn).get(self.origin, (0, 0))

    def history_chain(self) -> HistoryChain:
        with self._reading() as txn:
            return self._tables.histories.read_chain(txn)

    def read(self, after: Mark, max_events: int, max_bytes: int) -> list[ChunkColumns]:
        """See `broker.log.archive_reads.read_columns`."""
        with self._reading() as txn:
            return read_columns(txn, self._tables, self.origin, after, max_events, max_bytes)

    def read_moved(self, after: int) -> tuple[list[LoggedEvent], int]:
        """See `broker.log.archive_reads.read_moved`."""
        with self._reading() as txn:
            return read_moved(txn, self._tables, self.origin, after)

    def covered(self) -> Mapping[str, Mark]:
        with self._reading() as txn:
            return self._tables.origins.covered(txn)

    def replica_spans(self) -> Mapping[str, ReplicaSpan]:
        with self._reading() as txn:
            return self._tables.replicas.spans(txn)

    def read_replica(
        self, origin: str, after: Mark, max_events: int, max_bytes: int
    ) -> list[LoggedEvent]:
        with self._reading() as txn:
            return self._tables.replicas.read(txn, origin, after, max_events, max_bytes)

    def durables(self) -> dict[tuple[str, str], bytes]:
        found: dict[tuple[str, str], bytes] = {}
        with self._reading() as txn:
            for key, value in self._tables.durables.items(txn):
                if value is not None:
                    client, _, name = key.partition(b"\0")
                    found[client.decode(), name.decode()] = value
        return found

    def change_number(self) -> int:
        """Return a number that changes with each commit."""
        return int(self._env.info()["last_txnid"])

    def _reading(self) -> lmdb.Transaction:
        self._size.check()
        try:
            try:
                return self._env.begin(buffers=True)
            except lmdb.MapResizedError:
                # The writer was restarted with a larger map.
                self._env.set_mapsize(_MAP_SIZE_OF_WRITER)
                return self._env.begin(buffers=True)
        except lmdb.Error as error:
            raise LogUnavailable(f"{self._folder} can not be read: {error}") from None


def check_length(folder: Path) -> None:
    """Raise `LogCorrupt` if pages lie beyond the file's end."""
    with pin_commit(folder) as (verification, meta):
        file = verification.file
        if file.size < (meta.last_page + 1) * file.page_size:
            # Freed pages at the end may never have been written.
            check_pages(file, meta)
            if file.problems:
                raise LogCorrupt(f"{file.path} was cut short: {file.problems[0]}; {REPAIR_ADVICE}")


def _open_environment(folder: Path) -> lmdb.Environment:
    check_metas(folder)
    return lmdb.open(
        str(folder),
        readonly=True,
        max_dbs=MAX_TABLES,
        max_readers=64,
        map_size=_MAP_SIZE_OF_WRITER,
    )
