"""What each label path fulfils: bitmaps that are kept, and brought up to date when next needed.

A change to the patterns costs an entry in a journal. A label path that is used again reads what was
written since, most of which its last name rules out; so no change touches all label paths.
"""

from __future__ import annotations

import sys
from bisect import bisect_left

from broker.matching.paths.automaton import Automaton, PatternEntry
from broker.matching.paths.bitmap import bitmap_of
from broker.matching.paths.requirement import MAX_CONJUNCTS
from broker.matching.paths.label_path import LabelPath

#: Memory for what label paths fulfil, in bytes. When it is used up, every other label path is
#: forgotten, and computed when it is needed again.
MAX_BITMAP_BYTES = 128 * 1024 * 1024
#: Changes that are kept for label paths that did not read them yet; the older half goes, and who
#: did not read that is computed anew.
MAX_JOURNAL = 2048
#: Up to one row in so many, a column is a list of 8 bytes a row; but in a small index, where a
#: bitmap is faster and costs little, it never is.
SPARSE = 256
SMALL_INDEX = 32_768
_COLUMNS = range(MAX_CONJUNCTS)


class Change:
    """A row got (or lost, unless `gained`) a requirement in a column."""

    __slots__ = ("column", "entry", "gained", "row")

    def __init__(self, entry: PatternEntry, column: int, row: int, *, gained: bool) -> None:
        self.entry = entry
        self.column = column
        self.row = row
        self.gained = gained


class Acceptance:
    """For one label path: by column, the rows whose requirement there it fulfils.

    They are those in `dense`, a bitmap, and those in `sparse`.
    """

    __slots__ = ("dense", "read", "size", "sparse")

    def __init__(self) -> None:
        self.dense = [0] * MAX_CONJUNCTS
        self.sparse: list[list[int]] = [[] for _ in _COLUMNS]
        self.read = 0
        self.size = 0

    def settle(self, rows_in_use: int) -> None:
        """All changes are in: make long lists bitmaps."""
        least = rows_in_use // SPARSE if rows_in_use > SMALL_INDEX else 0
        for column in _COLUMNS:
            rows = self.sparse[column]
            if len(rows) > least:
                self.dense[column] |= bitmap_of(rows)
                self.sparse[column] = []
        self.size = sum(map(sys.getsizeof, (*self.dense, *self.sparse)))


class Acceptances:
    """Those of the label paths in use."""

    def __init__(
        self,
        automaton: Automaton,
        max_bytes: int = MAX_BITMAP_BYTES,
        max_journal: int = MAX_JOURNAL,
    ) -> None:
        self._automaton = automaton
        self._known: dict[LabelPath, Acceptance] = {}
        self._max_bytes = max_bytes
        self._journal: list[Change] = []
        self._begin = 0  # The number of the journal's first change.
        self._by_key: dict[str, list[int]] = {}
        self._max_journal = max_journal
        self.written = 0
        self.rows = 0  # The highest in use so far.
        self.bytes = 0
        self.computed = 0

    def __len__(self) -> int:
        return len(self._known)

    def note(self, change: Change) -> None:
        """Write down a change."""
        if len(self._journal) >= self._max_journal:
            gone = (len(self._journal) + 1) // 2
            del self._journal[:gone]
            self._begin += gone
            self._by_key.clear()
            for number, each in enumerate(self._journal, self._begin):
                self._by_key.setdefault(each.entry.key, []).append(number)
        self._journal.append(change)
        self._by_key.setdefault(change.entry.key, []).append(self.written)
        self.written += 1
        self.rows = max(self.rows, change.row)

    def of(self, path: LabelPath) -> Acceptance:
        """What the label path fulfils now; not to be changed."""
        known = self._known.get(path)
        if known is not None:
            if known.read == self.written:
                return known
            if known.read >= self._begin and not self._catch_up(known, path):
                known.read = self.written
                return known
            self.bytes -= known.size
        if known is None or known.read < self._begin:
            known = self._compute(path)
        known.settle(self.rows)
        known.read = self.written
        if path.kept:
            self._known[path] = known
            self.bytes += known.size
            if self.bytes > self._max_bytes:
                for each in list(self._known)[::2]:
                    self.bytes -= self._known.pop(each).size
        return known

    def _catch_up(self, known: Acceptance, path: LabelPath) -> bool:
        unread: list[int] = []
        for key in path.keys:
            numbers = self._by_key.get(key, ())
            unread += numbers[bisect_left(numbers, known.read) :]
        if not unread:
            return False
        # In the order in which it was written: a row may have been given to another meanwhile.
        unread.sort()
        labels = path.labels()
        for number in unread:
            change = self._journal[number - self._begin]
            rows = known.sparse[change.column]
            if change.gained:
                pattern = change.entry.pattern
                if change.entry.rows.get(change.row) != change.column:
                    continue  # It is lost again by now.
                if pattern.document is path.document and pattern.accepts(labels):
                    rows.append(change.row)
            elif change.row in rows:
                rows.remove(change.row)
            else:
                known.dense[change.column] &= ~(1 << change.row)
        return True

    def _compute(self, path: LabelPath) -> Acceptance:
        self.computed += 1
        found = Acceptance()
        for entry in self._automaton.accepted(path):
            for row, column in entry.rows.items():
                found.sparse[column].append(row)
        return found
