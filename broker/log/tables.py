"""The tables of a log's LMDB environment, for its writer and its readers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lmdb

from broker.log.checked_table import CheckedTable
from broker.log.chunk_table import ChunkTable
from broker.log.history import HistoryTable
from broker.log.origin_table import OriginTable
from broker.log.replica_table import ReplicaTable

FORMAT = 4
FORMAT_NAME = b"xmlbroker-log-4"
#: Has room for tables of later versions.
MAX_TABLES = 16
_FORMAT = b"xmlbroker-log-"


class Tables:
    """Handles of a log's tables, valid for the life of the environment."""

    def __init__(self, env: lmdb.Environment, *, create: bool = True) -> None:
        """Without `create`, raises `lmdb.NotFoundError` if a table is missing."""

        def opened(name: bytes) -> Any:
            return env.open_db(name, create=create)

        self.events = opened(b"events")
        self.origins_table = opened(b"origins")
        copies = self.copies = opened(b"copies")
        self.chunks = ChunkTable(self.events, self.origins_table)
        self.origins = OriginTable(self.origins_table, copies, self.chunks)
        self.replicas = ReplicaTable(opened(b"kept"), copies)
        self.marks = CheckedTable(b"d", opened(b"marks"), copies, accepts_unchecked=True)
        self.durables = CheckedTable(b"s", opened(b"durables"), copies)
        self.clients = CheckedTable(b"c", opened(b"clients"), copies)
        self.histories = HistoryTable(
            CheckedTable(b"h", opened(b"histories"), copies, accepts_unchecked=True)
        )
        self.moved = _find_moved(opened, copies)
        self.meta_table = opened(b"meta")
        self.meta = CheckedTable(b"m", self.meta_table, copies)

    @property
    def checked_tables(self) -> dict[str, CheckedTable]:
        """The tables of a log that is written."""
        assert self.moved is not None
        return {
            "origins": self.origins.checked_entries,
            "kept": self.replicas.spans_table,
            "marks": self.marks,
            "durables": self.durables,
            "clients": self.clients,
            "histories": self.histories.table,
            "moved": self.moved,
            "meta": self.meta,
        }


def _find_moved(opened: Callable[[bytes], Any], copies: Any) -> CheckedTable | None:
    """Return the table of `broker.log.moved_entries`; None in a log of an earlier version that no
    node has opened since."""
    try:
        return CheckedTable(b"v", opened(b"moved"), copies)
    except lmdb.NotFoundError:
        return None


def format_name(number: int) -> bytes:
    return _FORMAT + b"%d" % number


def format_number(name: bytes) -> int | None:
    number = name.removeprefix(_FORMAT)
    return int(number) if name.startswith(_FORMAT) and number.isdigit() else None
