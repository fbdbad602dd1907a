"""Checks of a file's rows: their order, documents, partition and hour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

import pyarrow as pa

from broker.archive.document_digest import are_intact
from broker.archive.layout import hour_of, partition_contains
from broker.archive.manifest_entry import ArchivedFile
from broker.archive.parquet import RowSummary
from broker.archive.row_order import is_strictly_ordered
from broker.archive.table import batch_to_events, has_values
from broker.errors import ArchiveCorrupt
from broker.signatures.event_check import find_forged


def check_rows(batches: Iterator[pa.RecordBatch]) -> list[RowSummary]:
    """Return summaries.

    Raises `ArchiveCorrupt` without rows, for places out of order, a wrong digest, or an event that
    its origin has not signed.
    """
    parts: list[RowSummary] = []
    last_row: pa.Table | None = None
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        joined = rows if last_row is None else pa.concat_tables([last_row, rows])
        if not is_strictly_ordered(joined.unify_dictionaries()):
            raise ArchiveCorrupt("its places do not ascend")
        last_row = rows.slice(rows.num_rows - 1)
        _check_documents(batch)
        _check_signatures(batch)
        parts.append(RowSummary.from_rows(rows))
    if not parts:
        raise ArchiveCorrupt("it has no rows")
    return parts


def check_partition_and_hour(file: ArchivedFile, parts: Sequence[RowSummary]) -> None:
    """Raise `ArchiveCorrupt` if an event belongs elsewhere."""
    streams = frozenset[str]().union(*(part.streams for part in parts))
    if not all(partition_contains(file.partition, stream) for stream in streams):
        raise ArchiveCorrupt("one of its streams belongs to another partition")
    if {hour_of(arrival) for arrival in file.arrivals} != {file.hour}:
        raise ArchiveCorrupt("one of its events arrived in another hour")


def _check_documents(batch: pa.RecordBatch) -> None:
    documents, digests = (batch.column(name).to_pylist() for name in ("document", "digest"))
    # Files without signed events may lack the column.
    is_signed = has_values(batch, "proof")
    proofs = batch.column("proof").to_pylist() if is_signed else [None] * len(documents)
    if not are_intact(documents, digests, proofs):
        raise ArchiveCorrupt("a document does not match its digest")


def _check_signatures(batch: pa.RecordBatch) -> None:
    if not has_values(batch, "proof"):
        return
    for origin, run in groupby(batch_to_events(batch), key=attrgetter("origin")):
        for event, error in find_forged(origin, run, must_sign=False):
            raise ArchiveCorrupt(f"{error} ({event.place})")
