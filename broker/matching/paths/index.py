"""Index of items by the document structure that they require.

Each alternative of an item's requirements is a *row*; its n-th pattern is in *column* n. Each label
path has a bitmap of satisfied rows per column, a document their union.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

import attrs

from broker.matching.bitmap import list_members
from broker.matching.paths.accepted_rows import MAX_BITMAP_BYTES, AcceptedRowsCache, RowChange
from broker.matching.paths.automaton import Automaton, PatternEntry
from broker.matching.paths.label_path import MAX_LABEL_PATHS, LabelPath, LabelPathTable
from broker.matching.paths.pattern import MAX_CONJUNCTS, Alternative, LabelKind, Requirements

Item = TypeVar("Item", bound=Hashable)


@attrs.frozen(slots=True)
class Candidates:
    """Bitmaps of item numbers: those that may match, and those that certainly match."""

    possible: int
    certain: int


@attrs.frozen(slots=True)
class _Row(Generic[Item]):
    item: Item
    number: int
    entries: tuple[PatternEntry, ...]


class PathIndex(Generic[Item]):
    """Items by the patterns that a matching document must have (F2, F3).

    An item with one pattern takes about 1 kB. Caches are limited: `max_label_paths` (some 0.7 kB
    each), `max_bitmap_bytes`, and a million references to states.
    """

    def __init__(
        self,
        max_label_paths: int = MAX_LABEL_PATHS,
        max_bitmap_bytes: int = MAX_BITMAP_BYTES,
    ) -> None:
        #: Label paths for this index.
        self.label_paths = LabelPathTable(max_label_paths)
        self._automaton = Automaton()
        self._accepted_rows = AcceptedRowsCache(self._automaton, max_bitmap_bytes)
        self._rows: list[_Row[Item] | None] = []
        self._free_rows: list[int] = []
        self._rows_by_item: dict[Item, tuple[int, ...]] = {}
        self._satisfiable_rows = 0
        self._exact_rows = 0
        self._secondary_rows = 0
        # By column: the rows without a requirement, and the number with one.
        self._rows_without_requirement = [0] * MAX_CONJUNCTS
        self._requirement_counts = [0] * MAX_CONJUNCTS
        self._label_kind_counts = dict.fromkeys(LabelKind, 0)

    def add_item(self, requirements: Requirements, item: Item) -> int:
        """Add an item; return its number. Raises `ValueError` if it is indexed already."""
        if item in self._rows_by_item:
            raise ValueError(f"{item!r} is indexed already")
        rows: list[int] = []
        # An unsatisfiable item needs a number too.
        for alternative in requirements.alternatives or (None,):
            rows.append(self._add_row(item, alternative, rows[0] if rows else None))
        if requirements.exact:
            self._exact_rows |= 1 << rows[0]
        self._rows_by_item[item] = tuple(rows)
        return rows[0]

    def remove_item(self, item: Item) -> None:
        rows = self._rows_by_item.pop(item)
        self._exact_rows &= ~(1 << rows[0])
        for row in rows:
            self._remove_row(row)

    def items_in(self, numbers: int) -> list[Item]:
        return [row.item for number in list_members(numbers) if (row := self._rows[number])]

    def uses_label_kind(self, kind: LabelKind) -> bool:
        return self._label_kind_counts[kind] > 0

    def find_candidates(self, paths: Iterable[LabelPath]) -> Candidates:
        columns = [i for i in range(MAX_CONJUNCTS) if self._requirement_counts[i]]
        unions = [0] * MAX_CONJUNCTS
        for path in paths:
            accepted = self._accepted_rows.find(path).columns
            for i in columns:
                if bitmap := accepted[i]:
                    unions[i] |= bitmap
        possible = self._satisfiable_rows
        for i in columns:
            possible &= unions[i] | self._rows_without_requirement[i]
        further = possible & self._secondary_rows
        if further:
            possible &= ~self._secondary_rows
            for number in {self._item_number(row) for row in list_members(further)}:
                possible |= 1 << number
        return Candidates(possible, possible & self._exact_rows)

    def _item_number(self, row: int) -> int:
        found = self._rows[row]
        assert found is not None
        return found.number

    def _add_row(self, item: Item, alternative: Alternative | None, number: int | None) -> int:
        if self._free_rows:
            row = self._free_rows.pop()
        else:
            row = len(self._rows)
            self._rows.append(None)
        bit = 1 << row
        ranked = sorted(alternative or (), key=lambda p: (-p.weight, str(p)))
        entries = tuple(map(self._automaton.add_pattern, ranked))
        for column in range(MAX_CONJUNCTS):
            if column >= len(entries):
                self._rows_without_requirement[column] |= bit
                continue
            entry = entries[column]
            entry.rows[row] = column
            self._requirement_counts[column] += 1
            self._label_kind_counts[entry.pattern.steps[-1].kind] += 1
            self._accepted_rows.record_change(RowChange(entry, column, row, is_added=True))
        if alternative is not None:
            self._satisfiable_rows |= bit
        if number is not None:
            self._secondary_rows |= bit
        self._rows[row] = _Row(item, row if number is None else number, entries)
        return row

    def _remove_row(self, row: int) -> None:
        found = self._rows[row]
        assert found is not None
        without = ~(1 << row)
        for column, entry in enumerate(found.entries):
            del entry.rows[row]
            self._requirement_counts[column] -= 1
            self._label_kind_counts[entry.pattern.steps[-1].kind] -= 1
            self._accepted_rows.record_change(RowChange(entry, column, row, is_added=False))
            if not entry.rows:
                self._automaton.remove_pattern(entry)
        self._rows_without_requirement = [
            bitmap & without for bitmap in self._rows_without_requirement
        ]
        self._satisfiable_rows &= without
        self._secondary_rows &= without
        self._rows[row] = None
        self._free_rows.append(row)
