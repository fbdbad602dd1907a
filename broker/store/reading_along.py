"""Reading a log that a running node writes, from another process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import lmdb

from broker.store.chunks import page
from broker.store.records import LoggedEvent


def read_only(folder: Path, start: int, max_events: int) -> Sequence[LoggedEvent]:
    """Read a log that a running node writes, from another process: a copy, in one transaction."""
    with (
        lmdb.open(str(folder), readonly=True, max_dbs=8, max_readers=64) as env,
        env.begin(db=env.open_db(b"events", create=False), buffers=True) as txn,
        txn.cursor() as cursor,
    ):
        return page(cursor, start, max_events)
