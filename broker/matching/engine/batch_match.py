"""Matching of a batch's documents of several shapes in few look-ups.

Most shapes have few documents in a batch. Their rows share one look-up in each index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from broker.matching.engine.shape_bindings import (
    IndexLookup,
    MembersByRow,
    ShapeBindings,
    UndecidedByRow,
)
from broker.matching.index.member import RowMatcher
from broker.matching.partial.source import ShapeBatch

#: Minimum number of documents for which a shape has its own look-ups.
MIN_SEPARATE_ROWS: Final = 12


class BatchMatch:
    """Match result for the documents of one shape. A member may occur twice in a row."""

    __slots__ = ("batch", "bindings", "matching", "undecided")

    def __init__(self, bindings: ShapeBindings, batch: ShapeBatch) -> None:
        self.bindings = bindings
        self.batch = batch
        self.matching: MembersByRow = [None] * batch.size
        self.undecided: UndecidedByRow = {}


def match_batches(batch_matches: Sequence[BatchMatch]) -> None:
    combined: dict[RowMatcher, _CombinedRows] = {}
    for batch_match in batch_matches:
        bindings, batch = batch_match.bindings, batch_match.batch
        if batch.size < MIN_SEPARATE_ROWS:
            _collect_rows(batch_match, combined)
            bindings.match_without_lookup(batch, batch_match.matching, batch_match.undecided)
        else:
            bindings.match_batch(batch, batch_match.matching, batch_match.undecided)
    for matcher, rows in combined.items():
        rows.match_rows(matcher)


def _collect_rows(batch_match: BatchMatch, combined: dict[RowMatcher, _CombinedRows]) -> None:
    for matcher, columns, lookup in batch_match.bindings.prepare_lookups(batch_match.batch):
        rows = combined.get(matcher)
        if rows is None:
            rows = combined[matcher] = _CombinedRows(len(columns))
        rows.add_rows(columns, lookup, batch_match)


class _CombinedRows:
    __slots__ = ("_columns", "_rows")

    def __init__(self, parameters: int) -> None:
        self._columns: list[list[Any]] = [[] for _ in range(parameters)]
        self._rows: list[tuple[BatchMatch, IndexLookup, int]] = []

    def add_rows(
        self, columns: list[Sequence[Any]], lookup: IndexLookup, batch_match: BatchMatch
    ) -> None:
        for combined_column, column in zip(self._columns, columns, strict=True):
            combined_column += column
        batch = batch_match.batch
        if batch.size == 1:
            self._rows.append((batch_match, lookup, 0))
        else:
            self._rows += [(batch_match, lookup, row) for row in range(batch.size)]

    def match_rows(self, matcher: RowMatcher) -> None:
        for at, postings in matcher.match_rows(self._columns, len(self._rows)):
            batch_match, lookup, row = self._rows[at]
            lookup.sort_hits(
                [(row, postings)], batch_match.batch, batch_match.matching, batch_match.undecided
            )
