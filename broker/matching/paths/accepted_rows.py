"""What each label path fulfils: bitmaps that are kept, and brought up to date when next needed.

A change to the patterns costs an entry in a journal. A label path that is used again reads what was
written since, most of which its last name rules out; so no change touches all label paths.
"""

from __future__ import annotations

import sys
from bisect import bisect_left

from broker.matching.paths.automaton import Automaton, PatternEntry
from broker.matching.paths.bitmap import bitmap_of
from broker.matching.paths.label_path import LabelPath
from broker.matching.paths.requirement import MAX_CONJUNCTS

#: Memory for what label paths fulfil, in bytes. When it is used up, every other label path is
#: forgotten, and computed when it is needed again.
MAX_BITMAP_BYTES = 128 * 1024 * 1024
#: Changes that are kept for label paths that did not read them yet; the older half goes, and who
#: did not read that is computed anew.
MAX_JOURNAL = 2048
#: Up to one row in so many, a column is a list of 8 bytes a row; but in a small index, where a
#: bitmap is faster and costs little, it never is.
ROWS_PER_SPARSE_ENTRY = 256
MAX_DENSE_ROWS = 32_768
_COLUMNS = range(MAX_CONJUNCTS)


class RowChange:
    """A row got (or lost, unless `gained`) a requirement in a column."""

    __slots__ = ("column", "entry", "is_added", "row")

    def __init__(self, entry: PatternEntry, column: int, row: int, *, is_added: bool) -> None:
        self.entry = entry
        self.column = column
        self.row = row
        self.is_added = is_added


class AcceptedRows:
    """For one label path: by column, the rows whose requirement there it fulfils.

    They are those in `dense`, a bitmap, and those in `sparse`.
    """

    __slots__ = ("dense", "journal_position", "size", "sparse")

    def __init__(self) -> None:
        self.dense = [0] * MAX_CONJUNCTS
        self.sparse: list[list[int]] = [[] for _ in _COLUMNS]
        self.journal_position = 0
        self.size = 0

    def compact(self, rows_in_use: int) -> None:
        """All changes are in: make long lists bitmaps."""
        least = rows_in_use // ROWS_PER_SPARSE_ENTRY if rows_in_use > MAX_DENSE_ROWS else 0
        for column in _COLUMNS:
            rows = self.sparse[column]
            if len(rows) > least:
                self.dense[column] |= bitmap_of(rows)
                self.sparse[column] = []
        self.size = sum(map(sys.getsizeof, (*self.dense, *self.sparse)))


class AcceptedRowsCache:
    """Those of the label paths in use."""

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
        self._journal_start = 0  # The number of the journal's first change.
        self._changes_by_key: dict[str, list[int]] = {}
        self._max_journal = max_journal
        self.journal_end = 0
        self.highest_row = 0  # The highest in use so far.
        self.bytes = 0
        self.computed = 0

    def __len__(self) -> int:
        return len(self._by_path)

    def record_change(self, change: RowChange) -> None:
        """Write down a change."""
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
        """What the label path fulfils now; not to be changed."""
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
        # In the order in which it was written: a row may have been given to another meanwhile.
        unread.sort()
        labels = path.label_keys()
        for number in unread:
            change = self._journal[number - self._journal_start]
            rows = known.sparse[change.column]
            if change.is_added:
                pattern = change.entry.pattern
                if change.entry.rows.get(change.row) != change.column:
                    continue  # It is lost again by now.
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
