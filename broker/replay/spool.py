"""The result of a job on disk: a folder with each event once.

`part-<n>.arrow` (Arrow IPC) has the requested events of the n-th file of the archive
(`EVENT_SCHEMA`). `request-<n>.arrow` has the order of the n-th request: columns `part`, `row` and
`size` (approximate bytes).

Files are written under a temporary name, so a file that exists is complete.
"""

from __future__ import annotations

import os
import shutil
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from broker.archive.chunk_encoding import rows_to_chunks
from broker.archive.table import batch_to_events
from broker.errors import Overloaded
from broker.log.logged_event import LoggedEvent
from broker.replay.ordering import Integers

_INDEX: Final = pa.schema([pa.field(name, pa.int32()) for name in ("part", "row", "size")])
#: Approximate. A page takes single rows from many batches.
_BATCH_BYTES: Final = 64 << 20
_MAX_OPEN_PARTS: Final = 64


@contextmanager
def _translate_disk_errors() -> Iterator[None]:
    """Raise `Overloaded`: a full disk is temporary."""
    try:
        yield
    except OSError as error:
        raise Overloaded(f"the spool cannot be written: {error}") from error


def part_path(folder: Path, number: int) -> Path:
    return folder / f"part-{number}.arrow"


class PartWriter:
    """`write` and `commit` raise `Overloaded`. An abandoned or empty part leaves no file."""

    def __init__(self, folder: Path, number: int, schema: pa.Schema) -> None:
        self._path = part_path(folder, number)
        # A retried task may write the same part while the first one hangs.
        self._temporary_path = self._path.with_suffix(f".{os.getpid()}.{id(self)}")
        with _translate_disk_errors():
            self._sink = pa.OSFile(str(self._temporary_path), "wb")
            self._writer = pa.ipc.new_file(self._sink, schema)
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = 0
        self._rows = 0

    def write(self, events: pa.RecordBatch) -> None:
        if events.num_rows:
            self._waiting.append(events)
            self._bytes += events.nbytes
            self._rows += events.num_rows
            if self._bytes >= _BATCH_BYTES:
                self._flush()

    def commit(self) -> None:
        self._flush()
        with _translate_disk_errors():
            self._close()
            if self._rows:
                self._temporary_path.replace(self._path)
            else:
                self._temporary_path.unlink()

    def _flush(self) -> None:
        if self._waiting:
            with _translate_disk_errors():
                self._writer.write_batch(pa.concat_batches(self._waiting))
        self._waiting, self._bytes = [], 0

    def abandon(self) -> None:
        with suppress(OSError, pa.ArrowException):
            # The file may be closed already, or fail again.
            self._close()
        self._temporary_path.unlink(missing_ok=True)

    def _close(self) -> None:
        self._writer.close()
        self._sink.close()


def write_request_order(
    folder: Path, number: int, parts: Integers, rows: Integers, sizes: Integers
) -> None:
    """Raises `Overloaded` if the disk is full."""
    columns = [pa.array(column, pa.int32()) for column in (parts, rows, sizes)]
    batch = pa.RecordBatch.from_arrays(columns, schema=_INDEX)
    path = _request_path(folder, number)
    writing = path.with_suffix(".new")
    with _translate_disk_errors():
        with pa.OSFile(str(writing), "wb") as sink, pa.ipc.new_file(sink, _INDEX) as writer:
            writer.write_batch(batch)
        writing.replace(path)


class Spool:
    """Reader of a job's folder, for one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._parts: OrderedDict[int, _MappedPart] = OrderedDict()
        self._orders: dict[int, tuple[Integers, ...]] = {}

    def count_events(self, request: int) -> int:
        return len(self._read_order(request)[0])

    def read_events(
        self, request: int, first: int, most: int, most_bytes: int
    ) -> list[LoggedEvent]:
        """Read events of a request, from the event number `first` (from 0) on.

        They have at most `most_bytes`, except a single larger event.
        """
        batch = self._read_rows(request, first, most, most_bytes)
        return [] if batch is None else batch_to_events(batch)

    def read_page(
        self, request: int, first: int, most: int, most_bytes: int
    ) -> tuple[list[bytes], int]:
        batch = self._read_rows(request, first, most, most_bytes)
        return ([], 0) if batch is None else (rows_to_chunks(batch), batch.num_rows)

    def _read_rows(
        self, request: int, first: int, most: int, most_bytes: int
    ) -> pa.RecordBatch | None:
        parts, rows, sizes = (column[first : first + most] for column in self._read_order(request))
        end = int(np.searchsorted(np.cumsum(sizes, dtype=np.int64), most_bytes, "right")) or 1
        parts, rows = parts[:end], rows[:end]
        if not len(parts):
            return None
        taken: list[pa.RecordBatch] = []
        places: list[Integers] = []
        for number in np.unique(parts).tolist():
            of_part = np.flatnonzero(parts == number)
            for batch, within in self._open_part(number).take_rows(rows[of_part]):
                taken.append(batch)
                places.append(of_part[within])
        together, order = pa.concat_batches(taken), np.concatenate(places)
        if (np.diff(order) < 0).any():
            together = together.take(pa.array(np.argsort(order, kind="stable")))
        return _dictionary_encode(together)

    def delete_request(self, request: int) -> None:
        self._orders.pop(request, None)
        _request_path(self._folder, request).unlink(missing_ok=True)

    def delete(self) -> None:
        self._parts.clear()
        self._orders.clear()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _read_order(self, request: int) -> tuple[Integers, ...]:
        known = self._orders.get(request)
        if known is None:
            with pa.memory_map(str(_request_path(self._folder, request))) as source:
                table = pa.ipc.open_file(source).read_all()
            known = self._orders[request] = tuple(
                table.column(name).to_numpy() for name in _INDEX.names
            )
        return known

    def _open_part(self, number: int) -> _MappedPart:
        part = self._parts.get(number)
        if part is None:
            part = self._parts[number] = _MappedPart(part_path(self._folder, number))
            if len(self._parts) > _MAX_OPEN_PARTS:
                self._parts.popitem(last=False)
        self._parts.move_to_end(number)
        return part


class _MappedPart:
    def __init__(self, path: Path) -> None:
        with pa.memory_map(str(path)) as source:
            opened = pa.ipc.open_file(source)
            self._batches = [opened.get_batch(n) for n in range(opened.num_record_batches)]
        self._starts = np.cumsum([0, *(batch.num_rows for batch in self._batches)])

    def take_rows(self, rows: Integers) -> Iterator[tuple[pa.RecordBatch, Integers]]:
        """Yield the events at `rows` in any order, with their positions in `rows`."""
        batches = np.searchsorted(self._starts, rows, "right") - 1
        for number in np.unique(batches).tolist():
            places = np.flatnonzero(batches == number)
            indices = pa.array(rows[places] - self._starts[number])
            yield self._batches[number].take(indices), places


def _dictionary_encode(batch: pa.RecordBatch) -> pa.RecordBatch:
    """In Arrow files names are plain: a dictionary there would be one for all batches."""
    columns = {
        name: column.dictionary_encode() if pa.types.is_string(column.type) else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    return pa.RecordBatch.from_pydict(columns)


def _request_path(folder: Path, number: int) -> Path:
    return folder / f"request-{number}.arrow"
