"""Cache of the index rows that each label path satisfies.

A label path applies the changes since its last use from a journal. Its last label rules out most of
them.
"""

from __future__ import annotations

import sys
from bisect import bisect_left

import attrs

from broker.matching.bitmap import bitmap_of
from broker.matching.paths.automaton import Automaton, PatternEntry
from broker.matching.paths.label_path import LabelPath
from broker.matching.paths.pattern import MAX_CONJUNCTS

#: Memory of the cache in bytes. Beyond it, every other label path is dropped, and computed again on
#: use.
MAX_BITMAP_BYTES = 128 * 1024 * 1024
#: Journal entries. Beyond them the older half is dropped; label paths that did not read it are
#: computed again.
MAX_JOURNAL = 2048


@attrs.frozen(slots=True)
class RowChange:
    """A row that gained (`is_added`) or lost a requirement in a column."""

    entry: PatternEntry
    column: int
    row: int
    is_added: bool


@attrs.define(eq=False)
class AcceptedRows:
    """Bitmaps of the rows whose requirement one label path satisfies, by column."""

    columns: list[int]
    journal_position: int = 0
    size: int = 0


class AcceptedRowsCache:
    def __init__(self, automaton: Automaton, max_bytes: int) -> None:
        self._automaton = automaton
        self._by_path: dict[LabelPath, AcceptedRows] = {}
        self._max_bytes = max_bytes
        self._journal: list[RowChange] = []
        self._journal_start = 0  # The number of the journal's first entry.
        self._changes_by_key: dict[str, list[int]] = {}
        self.journal_end = 0
        self.bytes = 0
        self.computed = 0

    def record_change(self, change: RowChange) -> None:
        if len(self._journal) >= MAX_JOURNAL:
            gone = (len(self._journal) + 1) // 2
            del self._journal[:gone]
            self._journal_start += gone
            self._changes_by_key.clear()
            for number, each in enumerate(self._journal, self._journal_start):
                self._changes_by_key.setdefault(each.entry.key, []).append(number)
        self._journal.append(change)
        self._changes_by_key.setdefault(change.entry.key, []).append(self.journal_end)
        self.journal_end += 1

    def find(self, path: LabelPath) -> AcceptedRows:
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
        known.size = sum(map(sys.getsizeof, known.columns))
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
            bit = 1 << change.row
            if not change.is_added:
                known.columns[change.column] &= ~bit
                continue
            # Else a later entry removed it.
            if change.entry.rows.get(change.row) == change.column:
                pattern = change.entry.pattern
                if pattern.document is path.document and pattern.matches(labels):
                    known.columns[change.column] |= bit
        return True

    def _compute(self, path: LabelPath) -> AcceptedRows:
        self.computed += 1
        rows: list[list[int]] = [[] for _ in range(MAX_CONJUNCTS)]
        for entry in self._automaton.find_accepted(path):
            for row, column in entry.rows.items():
                rows[column].append(row)
        return AcceptedRows(list(map(bitmap_of, rows)))
