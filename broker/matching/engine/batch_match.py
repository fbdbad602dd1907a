"""Matching of a batch's documents of several shapes in few look-ups.

Most shapes have few documents in a batch. Their rows share one look-up in each index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from broker.matching.engine.binding import ShapeBatch
from broker.matching.engine.shape_bindings import IndexLookup, ShapeBindings
from broker.matching.index.member import RowMatcher

#: Minimum number of documents for which a shape has its own look-ups.
MIN_SEPARATE_ROWS: Final = 12


def match_batches(batches: Sequence[tuple[ShapeBindings, ShapeBatch]]) -> None:
    combined: dict[RowMatcher, _CombinedRows] = {}
    for bindings, batch in batches:
        if batch.size >= MIN_SEPARATE_ROWS:
            bindings.match_batch(batch)
            continue
        for matcher, columns, lookup in bindings.prepare_lookups(batch):
            rows = combined.get(matcher)
            if rows is None:
                rows = combined[matcher] = _CombinedRows(len(columns))
            rows.add_rows(columns, lookup, batch)
        bindings.match_without_lookup(batch)
    for matcher, rows in combined.items():
        rows.match_rows(matcher)


class _CombinedRows:
    __slots__ = ("_columns", "_rows")

    def __init__(self, parameters: int) -> None:
        self._columns: list[list[Any]] = [[] for _ in range(parameters)]
        self._rows: list[tuple[ShapeBatch, IndexLookup, int]] = []

    def add_rows(
        self, columns: list[Sequence[Any]], lookup: IndexLookup, batch: ShapeBatch
    ) -> None:
        for combined_column, column in zip(self._columns, columns, strict=True):
            combined_column += column
        if batch.size == 1:
            self._rows.append((batch, lookup, 0))
        else:
            self._rows += [(batch, lookup, row) for row in range(batch.size)]

    def match_rows(self, matcher: RowMatcher) -> None:
        for at, postings in matcher.match_rows(self._columns, len(self._rows)):
            batch, lookup, row = self._rows[at]
            lookup.sort_hits([(row, postings)], batch)
