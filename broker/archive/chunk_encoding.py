"""Conversion of archive rows to log chunks, without an object per event."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from broker.archive.table import corrupt_row_error, encode_records
from broker.log.chunk import encode_columns

#: Columns in order, as numpy types; record and document lengths follow.
_PLACE_COLUMNS: Final = (("epoch", ">u4"), ("arrival", ">u8"), ("offset", ">u8"))


def rows_to_chunks(batch: pa.RecordBatch) -> list[bytes]:
    """Encode each run of rows of one origin as `encode_chunk` does.

    The columns are those of `batch_to_events`; `origin` is dictionary-encoded. Raises
    `ArchiveCorrupt` for an invalid value.
    """
    try:
        return _encode_chunks(batch)
    except (KeyError, TypeError, ValueError) as error:
        raise corrupt_row_error(error) from None


def _encode_chunks(batch: pa.RecordBatch) -> list[bytes]:
    records = list(encode_records(batch))
    ends, documents = _document_bytes(batch)
    columns = [
        *(_to_big_endian(_integer_column(batch, name), kind) for name, kind in _PLACE_COLUMNS),
        _to_big_endian(np.fromiter(map(len, records), np.int64, len(records)), ">u2"),
        _to_big_endian(np.diff(ends), ">u4"),
        _to_big_endian(_integer_column(batch, "level"), "u1"),
    ]
    origins = batch.column("origin")
    names, numbers = origins.dictionary.to_pylist(), origins.indices.to_numpy()
    bounds = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    return [
        encode_columns(
            names[numbers[start]],
            end - start,
            [column[start:end].tobytes() for column in columns],
            [*records[start:end], documents[ends[start] : ends[end]]],
        )
        for start, end in zip(bounds, bounds[1:], strict=False)
        if end > start
    ]


def _integer_column(batch: pa.RecordBatch, name: str) -> Any:
    column = batch.column(name)
    if column.null_count:
        raise ValueError(f"{name} is null")
    return column.to_numpy()


def _to_big_endian(values: Any, kind: str) -> Any:
    bounds = np.iinfo(kind)
    if len(values) and not bounds.min <= values.min() <= values.max() <= bounds.max:
        raise ValueError(f"{values.min()} to {values.max()} as {kind}")
    return values.astype(kind)


def _document_bytes(batch: pa.RecordBatch) -> tuple[Any, memoryview]:
    column = batch.column("document")
    if column.null_count:
        raise ValueError("document is null")
    _, ends, data = column.buffers()
    places = np.frombuffer(ends, np.int32)[column.offset : column.offset + len(column) + 1]
    return places, memoryview(data or b"")
