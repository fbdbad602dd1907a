"""Merging sorted files into one sequence of rows with each place once.

Only overlapping files are open, with one batch of each in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import pyarrow as pa

from broker.archive.manifest_entry import ArchivedFile
from broker.archive.row_order import is_strictly_ordered, sort_and_deduplicate
from broker.archive.table import PLACE_COLUMNS, SCHEMA
from broker.errors import ArchiveCorrupt, ArchiveObjectMissing

RowPlace: TypeAlias = tuple[str, int, int]
ReadFile: TypeAlias = Callable[[ArchivedFile], Iterator[pa.RecordBatch]]


class DamagedFileError(Exception):
    """A file that cannot be merged; the others can."""

    def __init__(self, file: ArchivedFile, reason: str, *, missing: bool = False) -> None:
        super().__init__(reason)
        self.file = file
        self.reason = reason
        self.missing = missing
        """True if the file does not exist. Another merge may have replaced it."""

    @classmethod
    def from_error(cls, file: ArchivedFile, error: ArchiveCorrupt) -> DamagedFileError:
        return cls(file, error.text, missing=isinstance(error, ArchiveObjectMissing))


class _OpenFile:
    def __init__(self, file: ArchivedFile, read: ReadFile) -> None:
        self._file = file
        self._batches = self._read_batches(read)
        self._previous_place: RowPlace | None = None
        self.rows: pa.Table = SCHEMA.empty_table()
        self.read_next_batch()
        if not self.rows.num_rows:
            raise DamagedFileError(file, "it has no rows")

    @property
    def last_place(self) -> RowPlace:
        return _row_place(self.rows, self.rows.num_rows - 1)

    def read_next_batch(self) -> None:
        """Read the next rows if none are left; at the file's end there are none."""
        while not self.rows.num_rows:
            batch = next(self._batches, None)
            if batch is None:
                return
            if batch.num_rows:
                self.rows = pa.Table.from_batches([batch])
                self._check_order()

    def take_rows_upto(self, limit: RowPlace) -> pa.Table:
        """Remove and return the rows up to and including a place."""
        count = _count_upto(self.rows, limit)
        taken, self.rows = self.rows.slice(0, count), self.rows.slice(count)
        return taken

    def _check_order(self) -> None:
        first = _row_place(self.rows, 0)
        is_first_batch = self._previous_place is None
        if is_first_batch and first != _first_place(self._file):
            raise DamagedFileError(self._file, "its first place is not the one in its manifest")
        if not is_strictly_ordered(self.rows) or (
            self._previous_place is not None and first <= self._previous_place
        ):
            raise DamagedFileError(self._file, "its places do not ascend")
        self._previous_place = self.last_place

    def _read_batches(self, read: ReadFile) -> Iterator[pa.RecordBatch]:
        try:
            yield from read(self._file)
        except ArchiveCorrupt as error:
            raise DamagedFileError.from_error(self._file, error) from None


def merge_rows(files: Sequence[ArchivedFile], read: ReadFile) -> Iterator[pa.Table]:
    """Yield rows by place, in portions; a repeated place occurs once.

    Raises `DamagedFileError` if a file contradicts its manifest.
    """
    pending = sorted(files, key=_first_place, reverse=True)
    opened: list[_OpenFile] = []
    while pending or opened:
        while pending and (not opened or _first_place(pending[-1]) <= _merge_limit(opened)):
            opened.append(_OpenFile(pending.pop(), read))
        limit = _merge_limit(opened)
        yield sort_and_deduplicate(
            pa.concat_tables([each.take_rows_upto(limit) for each in opened])
        )
        for each in opened:
            each.read_next_batch()
        opened = [each for each in opened if each.rows.num_rows]


def _merge_limit(opened: Sequence[_OpenFile]) -> RowPlace:
    return min(each.last_place for each in opened)


def _count_upto(rows: pa.Table, limit: RowPlace) -> int:
    low, high = 0, rows.num_rows
    while low < high:
        middle = (low + high) // 2
        if _row_place(rows, middle) <= limit:
            low = middle + 1
        else:
            high = middle
    return low


def _row_place(rows: pa.Table, row: int) -> RowPlace:
    origin, epoch, offset = (rows.column(name)[row].as_py() for name in PLACE_COLUMNS)
    return origin, epoch, offset


def _first_place(file: ArchivedFile) -> RowPlace:
    origin = min(file.spans)
    return (origin, *file.spans[origin][0])
