"""Merging sorted files into one run of rows, in which every place stands once.

Files that follow each other are open one after another, so what is held is a batch of each file
that overlaps, not all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import pyarrow as pa

from broker.archive.listed import ArchivedFile
from broker.archive.places import rises, sorted_once
from broker.archive.table import PLACE_COLUMNS, SCHEMA
from broker.errors import ArchiveCorrupt, ArchiveObjectMissing

#: Where a row stands: origin, epoch, offset.
Key: TypeAlias = tuple[str, int, int]
#: Gives the batches of a file.
Read: TypeAlias = Callable[[ArchivedFile], Iterator[pa.RecordBatch]]


class Damaged(Exception):
    """A file can not be merged; the others can."""

    def __init__(self, file: ArchivedFile, reason: str, *, missing: bool = False) -> None:
        super().__init__(reason)
        self.file = file
        self.reason = reason
        self.missing = missing
        """Whether it is not there: perhaps others took its place by now."""

    @classmethod
    def of(cls, file: ArchivedFile, error: ArchiveCorrupt) -> Damaged:
        """What reading a file said."""
        return cls(file, error.text, missing=isinstance(error, ArchiveObjectMissing))


class _Open:
    """A file that is being read: the rows of it that are not merged yet."""

    def __init__(self, file: ArchivedFile, read: Read) -> None:
        self._file = file
        self._batches = self._guarded(read)
        self._before: Key | None = None
        self.rows: pa.Table = SCHEMA.empty_table()
        self.fill()
        if not self.rows.num_rows:
            raise Damaged(file, "it has no rows")

    @property
    def last(self) -> Key:
        """Of its rows that are there."""
        return _key(self.rows, self.rows.num_rows - 1)

    def fill(self) -> None:
        """Read on if no row is there; there is none at the end."""
        while not self.rows.num_rows:
            batch = next(self._batches, None)
            if batch is None:
                return
            if batch.num_rows:
                self.rows = pa.Table.from_batches([batch])
                self._check()

    def take(self, limit: Key) -> pa.Table:
        """Its rows up to and with a place."""
        count = _count_upto(self.rows, limit)
        taken, self.rows = self.rows.slice(0, count), self.rows.slice(count)
        return taken

    def _check(self) -> None:
        first = _key(self.rows, 0)
        begins = self._before is None
        if begins and first != _first_key(self._file):
            raise Damaged(self._file, "it does not begin where its manifest says")
        if not rises(self.rows) or (self._before is not None and first <= self._before):
            raise Damaged(self._file, "its places do not rise")
        self._before = self.last

    def _guarded(self, read: Read) -> Iterator[pa.RecordBatch]:
        try:
            yield from read(self._file)
        except ArchiveCorrupt as error:
            raise Damaged.of(self._file, error) from None


def merged_rows(files: Sequence[ArchivedFile], read: Read) -> Iterator[pa.Table]:
    """All rows of the files by place, some at a time; of a place that occurs twice, one.

    Raises `Damaged` for a file that is not what its manifest says.
    """
    pending = sorted(files, key=_first_key, reverse=True)
    opened: list[_Open] = []
    while pending or opened:
        while pending and (not opened or _first_key(pending[-1]) <= _least_last(opened)):
            opened.append(_Open(pending.pop(), read))
        limit = _least_last(opened)
        yield sorted_once(pa.concat_tables([each.take(limit) for each in opened]))
        for each in opened:
            each.fill()
        opened = [each for each in opened if each.rows.num_rows]


def _least_last(opened: Sequence[_Open]) -> Key:
    return min(each.last for each in opened)


def _count_upto(rows: pa.Table, limit: Key) -> int:
    """How many of sorted rows stand at a place or before it."""
    low, high = 0, rows.num_rows
    while low < high:
        middle = (low + high) // 2
        if _key(rows, middle) <= limit:
            low = middle + 1
        else:
            high = middle
    return low


def _key(rows: pa.Table, row: int) -> Key:
    origin, epoch, offset = (rows.column(name)[row].as_py() for name in PLACE_COLUMNS)
    return origin, epoch, offset


def _first_key(file: ArchivedFile) -> Key:
    origin = min(file.spans)
    return (origin, *file.spans[origin][0])
