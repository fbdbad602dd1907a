"""Rows of the archive as chunks, whose columns they nearly are: no event is made for it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from broker.archive.table import no_event, records_of
from broker.log.chunks import encode_columns

#: The columns of a chunk in their order, as numpy has them; lengths come behind the third.
_PLACES: Final = (("epoch", ">u4"), ("arrival", ">u8"), ("offset", ">u8"))


def rows_to_chunks(batch: pa.RecordBatch) -> list[bytes]:
    """What `encode_chunk` makes of the events of each run of neighbouring rows of one origin, which
    have the columns that `batch_to_events` wants, with origins as a dictionary.

    `ArchiveCorrupt` if a value is none that an event can have.
    """
    try:
        return _chunks(batch)
    except (KeyError, TypeError, ValueError) as error:
        raise no_event(error) from None


def _chunks(batch: pa.RecordBatch) -> list[bytes]:
    records = list(records_of(batch))
    ends, documents = _documents(batch)
    columns = [
        *(_column(_integers(batch, name), kind) for name, kind in _PLACES),
        _column(np.fromiter(map(len, records), np.int64, len(records)), ">u2"),
        _column(np.diff(ends), ">u4"),
        _column(_integers(batch, "level"), "u1"),
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


def _integers(batch: pa.RecordBatch, name: str) -> Any:
    column = batch.column(name)
    if column.null_count:
        raise ValueError(f"{name} is null")
    return column.to_numpy()


def _column(values: Any, kind: str) -> Any:
    bounds = np.iinfo(kind)
    if len(values) and not bounds.min <= values.min() <= values.max() <= bounds.max:
        raise ValueError(f"{values.min()} to {values.max()} as {kind}")
    return values.astype(kind)


def _documents(batch: pa.RecordBatch) -> tuple[Any, memoryview]:
    """Where each document begins, and the last one ends, in the bytes of all."""
    column = batch.column("document")
    if column.null_count:
        raise ValueError("document is null")
    _, ends, data = column.buffers()
    places = np.frombuffer(ends, np.int32)[column.offset : column.offset + len(column) + 1]
    return places, memoryview(data or b"")
