"""Cache of the index rows that each label path satisfies.

A change of the patterns appends an entry to a journal. A cached label path applies the entries
since its last use; its last label rules out most of them. So no change visits all label paths.
"""

from __future__ import annotations

import sys
from bisect import bisect_left

from broker.matching.bitmap import bitmap_of
from broker.matching.paths.automaton import Automaton, PatternEntry
from broker.matching.paths.label_path import LabelPath
from broker.matching.paths.requirement import MAX_CONJUNCTS

#: Memory of the cache in bytes. Beyond it, every other label path is dropped, and computed again on
#: use.
MAX_BITMAP_BYTES = 128 * 1024 * 1024
#: Journal entries. Beyond them the older half is dropped; label paths that did not read it are
#: computed again.
MAX_JOURNAL = 2048
#: Columns with at most one row in so many are lists, 8 bytes per row. A small index has bitmaps
#: only, which are faster and cost little there.
ROWS_PER_SPARSE_ENTRY = 256
MAX_DENSE_ROWS = 32_768
_COLUMNS = range(MAX_CONJUNCTS)


class RowChange:
    """A row that gained (`is_added`) or lost a requirement in a column."""

    __slots__ = ("column", "entry", "is_added", "row")

    def __init__(self, entry: PatternEntry, column: int, row: int, *, is_added: bool) -> None:
        self.entry = entry
        self.column = column
        self.row = row
        self.is_added = is_added


class AcceptedRows:
    """Rows whose requirement one label path satisfies, by column.

    They are in `dense`, a bitmap, or in `sparse`, a list.
    """

    __slots__ = ("dense", "journal_position", "size", "sparse")

    def __init__(self) -> None:
        self.dense = [0] * MAX_CONJUNCTS
        self.sparse: list[list[int]] = [[] for _ in _COLUMNS]
        self.journal_position = 0
        self.size = 0

    def compact(self, rows_in_use: int) -> None:
        """Convert long lists to bitmaps, once all changes are applied."""
        least = rows_in_use // ROWS_PER_SPARSE_ENTRY if rows_in_use > MAX_DENSE_ROWS else 0
        for column in _COLUMNS:
            rows = self.sparse[column]
            if len(rows) > least:
                self.dense[column] |= bitmap_of(rows)
                self.sparse[column] = []
        self.size = sum(map(sys.getsizeof, (*self.dense, *self.sparse)))


class AcceptedRowsCache:
    def __init__(
        self,
        automaton: Automaton,
        max_bytes: int = MAX_BITMAP_BYTES,
        max_journal: int = MAX_JOURNAL,
    ) -> None:
        self._automaton = automaton
        self._by_path: dict[LabelPath, AcceptedRows] = {}
        self._max_bytes = max_bytes
        self._journal: list[RowChange] = []
        self._journal_start = 0  # The number of the journal's first entry.
        self._changes_by_key: dict[str, list[int]] = {}
        self._max_journal = max_journal
        self.journal_end = 0
        self.highest_row = 0  # The highest so far.
        self.bytes = 0
        self.computed = 0

    def __len__(self) -> int:
        return len(self._by_path)

    def record_change(self, change: RowChange) -> None:
        if len(self._journal) >= self._max_journal:
            gone = (len(self._journal) + 1) // 2
            del self._journal[:gone]
            self._journal_start += gone
            self._changes_by_key.clear()
            for number, each in enumerate(self._journal, self._journal_start):
                self._changes_by_key.setdefault(each.entry.key, []).append(number)
        self._journal.append(change)
        self._changes_by_key.setdefault(change.entry.key, []).append(self.journal_end)
        self.journal_end += 1
        self.highest_row = max(self.highest_row, change.row)

    def find(self, path: LabelPath) -> AcceptedRows:
        """Return the current rows of the label path; read-only."""
        known = self._by_path.get(path)
        if known is not None:
            if known.journal_position == self.journal_end:
                return known
            if known.journal_position >= self._journal_start and not self._apply_journal(
                known, path
            ):
                known.journal_position = self.journal_end
                return known
            self.bytes -= known.size
        if known is None or known.journal_position < self._journal_start:
            known = self._compute(path)
        known.compact(self.highest_row)
        known.journal_position = self.journal_end
        if path.is_interned:
            self._by_path[path] = known
            self.bytes += known.size
            if self.bytes > self._max_bytes:
                for each in list(self._by_path)[::2]:
                    self.bytes -= self._by_path.pop(each).size
        return known

    def _apply_journal(self, known: AcceptedRows, path: LabelPath) -> bool:
        unread: list[int] = []
        for key in path.keys:
            numbers = self._changes_by_key.get(key, ())
            unread += numbers[bisect_left(numbers, known.journal_position) :]
        if not unread:
            return False
        # In journal order: another item may have reused a row.
        unread.sort()
        labels = path.label_keys()
        for number in unread:
            change = self._journal[number - self._journal_start]
            rows = known.sparse[change.column]
            if change.is_added:
                pattern = change.entry.pattern
                if change.entry.rows.get(change.row) != change.column:
                    continue  # A later entry removed it.
                if pattern.document is path.document and pattern.matches(labels):
                    rows.append(change.row)
            elif change.row in rows:
                rows.remove(change.row)
            else:
                known.dense[change.column] &= ~(1 << change.row)
        return True

    def _compute(self, path: LabelPath) -> AcceptedRows:
        self.computed += 1
        found = AcceptedRows()
        for entry in self._automaton.find_accepted(path):
            for row, column in entry.rows.items():
                found.sparse[column].append(row)
        return found
