"""Checks of the rows of a file: their order, their documents, and where the file lies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from broker.archive.layout import hour_of, partition_holds
from broker.archive.listed import ArchivedFile
from broker.archive.parquet import Part
from broker.archive.places import rises
from broker.archive.table import digest_of
from broker.errors import ArchiveCorrupt


def checked_parts(batches: Iterator[pa.RecordBatch]) -> list[Part]:
    """What is to be known of the rows of a file, at least one; `ArchiveCorrupt` unless its places
    rise and its documents are what their hashes say."""
    parts: list[Part] = []
    last_row: pa.Table | None = None
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        joined = rows if last_row is None else pa.concat_tables([last_row, rows])
        if not rises(joined.unify_dictionaries()):
            raise ArchiveCorrupt("its places do not rise")
        last_row = rows.slice(rows.num_rows - 1)
        _check_documents(batch)
        parts.append(Part.of(rows))
    if not parts:
        raise ArchiveCorrupt("it has no rows")
    return parts


def check_place(file: ArchivedFile, parts: Sequence[Part]) -> None:
    """`ArchiveCorrupt` unless its events belong into its partition and hour."""
    streams = frozenset[str]().union(*(part.streams for part in parts))
    if not all(partition_holds(file.partition, stream) for stream in streams):
        raise ArchiveCorrupt("a stream in it belongs into another partition")
    if {hour_of(arrival) for arrival in file.arrivals} != {file.hour}:
        raise ArchiveCorrupt("an event in it arrived at another hour")


def _check_documents(batch: pa.RecordBatch) -> None:
    found = map(digest_of, batch.column("document").to_pylist())
    if list(found) != batch.column("digest").to_pylist():
        raise ArchiveCorrupt("a document is not what its hash says")
