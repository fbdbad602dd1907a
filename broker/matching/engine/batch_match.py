"""Matching of a batch's documents of several shapes in few look-ups.

Most shapes have few documents in a batch. Their rows share one look-up in each index. Shapes that
differ only in prefixes have the same bindings, and are matched as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from broker.matching.engine.binding import ShapeBatch
from broker.matching.engine.distinct_query import DistinctQuery
from broker.matching.engine.shape_bindings import IndexLookup, ShapeBindings
from broker.matching.index.member import Member, RowMatcher

#: Minimum number of documents for which a shape has its own look-ups.
MIN_SEPARATE_ROWS: Final = 12


class MatchedRows(NamedTuple):
    """Matches of the documents of one shape, by row; see `ShapeBatch`."""

    matching: list[list[Member] | None]
    undecided: dict[int, list[DistinctQuery]]


def match_shapes(
    shapes: Sequence[tuple[ShapeBindings, Sequence[tuple[bytes, ...]]]],
) -> list[MatchedRows]:
    """Match the slot values of each shape."""
    batches: dict[ShapeBindings, list[Sequence[tuple[bytes, ...]]]] = {}
    for bindings, values in shapes:
        batches.setdefault(bindings, []).append(values)
    joined = {
        bindings: ShapeBatch(parts[0] if len(parts) == 1 else list(chain.from_iterable(parts)))
        for bindings, parts in batches.items()
    }
    match_batches(list(joined.items()))
    if len(joined) == len(shapes):
        return [MatchedRows(each.matching, each.undecided) for each in joined.values()]
    found = []
    starts = dict.fromkeys(joined, 0)
    for bindings, values in shapes:
        batch, start = joined[bindings], starts[bindings]
        end = starts[bindings] = start + len(values)
        undecided = {
            row - start: batch.undecided[row] for row in range(start, end) if row in batch.undecided
        }
        found.append(MatchedRows(batch.matching[start:end], undecided))
    return found


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
