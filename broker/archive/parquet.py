"""Encoding rows as a Parquet file, and its manifest entry."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from broker.archive.layout import events_path, hour_of
from broker.archive.manifest_entry import MAX_STREAMS, ArchivedFile
from broker.archive.table import FILE_SCHEMAS, file_schema_of
from broker.event.place import Mark

#: Document bytes of a row group: about the least that a reader reads.
ROW_GROUP_BYTES: Final = 16 << 20
#: Level 1 of zstd takes a tenth less time and a tenth more space.
COMPRESSION_LEVEL: Final = 3
#: Columns with few distinct values.
_DICTIONARIES: Final = ["origin", "client", "stream", "type", "version", "stack", "stack_site"]
#: Columns by which readers skip row groups.
_STATISTICS: Final = [
    *("origin", "epoch", "offset", "arrival", "level", "client", "timestamp"),
    *("stream", "type", "version", "stack", "stack_order", "time"),
]


@attrs.frozen
class EncodedFile:
    file: ArchivedFile
    data: Any


def encode_file(rows: pa.Table, partition: str, level: int = COMPRESSION_LEVEL) -> EncodedFile:
    """Encode at least one row of one hour and partition, sorted by place."""
    growing = ParquetFileWriter(partition, level)
    growing.add_rows(rows)
    return growing.finish()


class ParquetFileWriter:
    """Incremental writer of a file.

    The file gets an optional column with the first row that has a value there.
    """

    def __init__(self, partition: str, level: int = COMPRESSION_LEVEL) -> None:
        self._partition = partition
        self._level = level
        self._open(FILE_SCHEMAS[0])
        self._waiting: list[pa.Table] = []
        self._waiting_bytes = 0
        self._parts: list[RowSummary] = []

    def _open(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._sink = pa.BufferOutputStream()
        self._writer = pq.ParquetWriter(
            self._sink,
            schema,
            compression="zstd",
            compression_level=self._level,
            use_dictionary=_DICTIONARIES,
            write_statistics=_STATISTICS,
        )

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self._parts)

    @property
    def bytes(self) -> int:
        """Rows that wait for their row group do not count."""
        return int(self._sink.tell())

    def add_rows(self, rows: pa.Table) -> None:
        """Add at least one row, sorted by place and after all earlier ones."""
        self._parts.append(RowSummary.from_rows(rows))
        size = rows.column("document").nbytes
        average = max(1, size // rows.num_rows)
        group = max(1, ROW_GROUP_BYTES // average)
        if not self._waiting and rows.num_rows > group:
            whole = rows.num_rows // group * group
            self._write(rows.slice(0, whole), group)
            rows = rows.slice(whole)
            size = average * rows.num_rows
        if rows.num_rows:
            self._waiting.append(rows)
            self._waiting_bytes += size
        if self._waiting_bytes >= ROW_GROUP_BYTES:
            self._write_row_group()

    def finish(self) -> EncodedFile:
        self._write_row_group()
        self._writer.close()
        data = self._sink.getvalue()
        sha256 = hashlib.sha256(data).hexdigest()
        return EncodedFile(describe_file(self._parts, self._partition, data.size, sha256), data)

    def _write_row_group(self) -> None:
        if self._waiting:
            rows = pa.concat_tables(self._waiting).unify_dictionaries()
            self._write(rows, rows.num_rows)
        self._waiting, self._waiting_bytes = [], 0

    def _write(self, rows: pa.Table, row_group_size: int) -> None:
        needed = file_schema_of(rows)
        if len(needed) > len(self._schema):
            self._add_columns(needed)
        self._writer.write_table(rows.select(self._schema.names), row_group_size=row_group_size)

    def _add_columns(self, schema: pa.Schema) -> None:
        """Write the row groups again, with empty columns."""
        self._writer.close()
        with pq.ParquetFile(self._sink.getvalue()) as written:
            self._open(schema)
            for number in range(written.num_row_groups):
                rows = written.read_row_group(number, use_threads=False)
                for field in list(schema)[rows.num_columns :]:
                    rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
                self._writer.write_table(rows, row_group_size=rows.num_rows)


@attrs.frozen
class RowSummary:
    """The part of a manifest entry that some rows determine."""

    rows: int
    spans: dict[str, tuple[Mark, Mark]]
    arrivals: tuple[int, int]
    levels: frozenset[int]
    streams: frozenset[str]
    types: frozenset[tuple[str, str]]

    @classmethod
    def from_rows(cls, rows: pa.Table) -> RowSummary:
        arrivals = pc.min_max(rows.column("arrival")).as_py()
        kinds = rows.select(["type", "version"]).group_by(["type", "version"]).aggregate([])
        return cls(
            rows.num_rows,
            _spans(rows),
            (arrivals["min"], arrivals["max"]),
            frozenset(pc.unique(rows.column("level")).to_pylist()),
            frozenset(pc.unique(rows.column("stream")).to_pylist()),
            frozenset((row["type"], row["version"]) for row in kinds.to_pylist()),
        )


def describe_file(
    parts: Sequence[RowSummary], partition: str, size: int, sha256: str, path: str = ""
) -> ArchivedFile:
    """Return a manifest entry, with a new path unless one is given."""
    spans: dict[str, tuple[Mark, Mark]] = {}
    for part in parts:
        for origin, (first, last) in part.spans.items():
            spans[origin] = (spans.get(origin, (first, last))[0], last)
    origin, (first, last) = next(iter(spans.items()))
    arrivals = (min(p.arrivals[0] for p in parts), max(p.arrivals[1] for p in parts))
    hour = hour_of(arrivals[0])
    streams = sorted(frozenset[str]().union(*(part.streams for part in parts)))
    return ArchivedFile(
        path=path or events_path(partition, hour, origin, first, last[1], secrets.token_hex(4)),
        partition=partition,
        hour=hour,
        rows=sum(part.rows for part in parts),
        bytes=size,
        sha256=sha256,
        spans=spans,
        arrivals=arrivals,
        levels=tuple(sorted(frozenset[int]().union(*(part.levels for part in parts)))),
        streams=tuple(streams) if len(streams) <= MAX_STREAMS else None,
        types=tuple(sorted(frozenset[tuple[str, str]]().union(*(part.types for part in parts)))),
    )


def _spans(rows: pa.Table) -> dict[str, tuple[Mark, Mark]]:
    """Rows of one origin are neighbours."""
    origins = rows.column("origin").combine_chunks()
    names, numbers = origins.dictionary.to_pylist(), origins.indices.to_numpy()
    starts = [0, *(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist()]
    ends = [*starts[1:], len(numbers)]

    def mark(row: int) -> Mark:
        return rows.column("epoch")[row].as_py(), rows.column("offset")[row].as_py()

    return {
        names[numbers[start]]: (mark(start), mark(end - 1))
        for start, end in zip(starts, ends, strict=True)
    }
