"""Rows as the bytes of a Parquet file, and what its manifest says of it."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from broker.store.archive.layout import events_path, hour_of
from broker.store.archive.listed import MOST_STREAMS, ArchivedFile
from broker.store.archive.table import SCHEMA

#: Bytes of documents in a row group, about: the least that a reader of one event reads.
ROW_GROUP_BYTES: Final = 16 << 20
#: Of zstd. 1 saves a tenth of the time and costs a tenth of the room.
COMPRESSION_LEVEL: Final = 3
#: Columns with few values, which are stored once each.
_DICTIONARIES: Final = ["origin", "client", "stream", "type", "version", "stack"]
#: Columns by whose least and greatest values row groups are passed over.
_STATISTICS: Final = [
    *("origin", "epoch", "offset", "arrival", "level", "client", "timestamp"),
    *("stream", "type", "version", "stack", "stack_order"),
]


@attrs.frozen
class EncodedFile:
    """A file of events that is to be put."""

    file: ArchivedFile
    data: Any
    """Its bytes, as a buffer."""


def sort_rows(rows: pa.Table) -> pa.Table:
    """The rows by origin, epoch and offset, as they are if they are so already."""
    ranks, epochs, offsets = place_keys(rows)
    order = np.lexsort((offsets, epochs, ranks))
    if np.array_equal(order, np.arange(len(order))):
        return rows
    return rows.take(order)


def place_keys(rows: pa.Table) -> tuple[Any, Any, Any]:
    """Origin (as its rank among the names), epoch and offset of each row."""
    origins = rows.column("origin").combine_chunks()
    names = origins.dictionary.to_pylist()
    ranks = np.empty(len(names), np.int32)
    ranks[np.argsort(np.array(names, dtype=object), kind="stable")] = np.arange(len(names))
    numbers = ranks[origins.indices.to_numpy()]
    return numbers, rows.column("epoch").to_numpy(), rows.column("offset").to_numpy()


def encode_file(rows: pa.Table, partition: str, level: int = COMPRESSION_LEVEL) -> EncodedFile:
    """A file of sorted rows, at least one, of one hour and partition."""
    sink = pa.BufferOutputStream()
    documents = rows.column("document")
    average = max(1, documents.nbytes // rows.num_rows)
    with pq.ParquetWriter(
        sink,
        SCHEMA,
        compression="zstd",
        compression_level=level,
        use_dictionary=_DICTIONARIES,
        write_statistics=_STATISTICS,
    ) as writer:
        writer.write_table(rows, row_group_size=max(1, ROW_GROUP_BYTES // average))
    data = sink.getvalue()
    return EncodedFile(_describe(rows, partition, data), data)


def _describe(rows: pa.Table, partition: str, data: Any) -> ArchivedFile:
    spans = _spans(rows)
    arrivals = pc.min_max(rows.column("arrival")).as_py()
    hour = hour_of(arrivals["min"])
    origin, (first, last) = next(iter(spans.items()))
    streams = sorted(pc.unique(rows.column("stream")).to_pylist())
    kinds = pa.TableGroupBy(rows.select(["type", "version"]), ["type", "version"]).aggregate([])
    return ArchivedFile(
        path=events_path(partition, hour, origin, first, last[1], secrets.token_hex(4)),
        partition=partition,
        hour=hour,
        rows=rows.num_rows,
        bytes=data.size,
        sha256=hashlib.sha256(data).hexdigest(),
        spans=spans,
        arrivals=(arrivals["min"], arrivals["max"]),
        levels=tuple(sorted(pc.unique(rows.column("level")).to_pylist())),
        streams=tuple(streams) if len(streams) <= MOST_STREAMS else None,
        types=tuple(sorted((row["type"], row["version"]) for row in kinds.to_pylist())),
    )


def _spans(rows: pa.Table) -> dict[str, tuple[tuple[int, int], tuple[int, int]]]:
    """First and last mark of each origin, whose rows are neighbours."""
    origins = rows.column("origin").combine_chunks()
    names, numbers = origins.dictionary.to_pylist(), origins.indices.to_numpy()
    starts = [0, *(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist()]
    ends = [*starts[1:], len(numbers)]

    def mark(row: int) -> tuple[int, int]:
        return rows.column("epoch")[row].as_py(), rows.column("offset")[row].as_py()

    return {
        names[numbers[start]]: (mark(start), mark(end - 1))
        for start, end in zip(starts, ends, strict=True)
    }
