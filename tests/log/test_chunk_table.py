from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

from broker.log.chunk import encode_key
from broker.log.chunk_table import ChunkTable
from broker.log.logged_event import LoggedEvent
from broker.log.stored_chunk import encode_stored_chunk


@pytest.fixture
def read(tmp_path: Path) -> Iterator[tuple[ChunkTable, lmdb.Transaction]]:
    """Chunks of offsets 11 to 13, 14, and 15 to 19."""
    with lmdb.open(str(tmp_path), max_dbs=2) as env:
        table = ChunkTable(env.open_db(b"events"), env.open_db(b"origins"))
        with env.begin(write=True) as txn:
            for first, end in ((11, 14), (14, 15), (15, 20)):
                chunk = [
                    LoggedEvent(1, o, 0, 0, b"r", b"%d" % o, "n", o) for o in range(first, end)
                ]
                key = encode_key(first)
                txn.put(key, encode_stored_chunk(key, chunk), db=table.table)
        with env.begin(buffers=True) as txn:
            yield table, txn


@pytest.mark.parametrize(
    ("serial", "first"),
    [(0, 11), (11, 11), (13, 11), (14, 14), (15, 15), (19, 15), (20, None), (2**60, None)],
)
def test_the_chunk_of_a_serial_is_found(
    read: tuple[ChunkTable, lmdb.Transaction], serial: int, first: int | None
) -> None:
    table, txn = read
    with table.cursor(txn) as cursor:
        chunk = table.chunk_holding(txn, cursor, serial)
        assert (None if chunk is None else chunk.first) == first
        if chunk is not None:
            assert table.chunk_at(txn, cursor).first == first


def test_a_page_begins_and_ends_within_chunks(
    read: tuple[ChunkTable, lmdb.Transaction],
) -> None:
    table, txn = read
    assert [event.offset for event in table.read_page(txn, 12, 5)] == [12, 13, 14, 15, 16]
    assert [event.offset for event in table.read_page(txn, 3, 100)] == list(range(11, 20))
    assert [event.offset for event in table.read_page(txn, 13, 100, max_bytes=100)] == [13, 14]
    assert table.read_page(txn, 20, 100) == []
    (event,) = table.read_page(txn, 11, 1)
    assert (type(event.document), event.document, event.record) == (bytes, b"11", b"r")
