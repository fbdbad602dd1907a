"""A batch's documents of several shapes, matched at once.

Most shapes are rare: they have a few documents in a batch, and what a look-up costs by itself would
be more than what the documents add to it. So such shapes are looked up together, wherever one index
answers for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from broker.matching.engine.batch import ShapeBatch
from broker.matching.engine.shape_bindings import (
    IndexLookup,
    MembersByRow,
    ShapeBindings,
    UndecidedByRow,
)
from broker.matching.index.member import RowMatcher

#: Documents of one shape from which on it is looked up by itself.
MIN_SEPARATE_ROWS: Final = 12


class BatchMatch:
    """What was found for the documents of one shape; one member may come twice for a row."""

    __slots__ = ("batch", "bindings", "matching", "undecided")

    def __init__(self, bound: ShapeBindings, batch: ShapeBatch) -> None:
        self.bindings = bound
        self.batch = batch
        self.matching: MembersByRow = [None] * batch.size
        """For each row the members that match, None for none."""
        self.undecided: UndecidedByRow = {}
        """By row, the queries that may match."""


def match_batches(findings: Sequence[BatchMatch]) -> None:
    """Fill in what is found."""
    together: dict[RowMatcher, _CombinedRows] = {}
    for finding in findings:
        bound, batch = finding.bindings, finding.batch
        if batch.size < MIN_SEPARATE_ROWS:
            _collect_rows(finding, together)
            bound.match_without_lookup(batch, finding.matching, finding.undecided)
        else:
            bound.match_batch(batch, finding.matching, finding.undecided)
    for finder, gathered in together.items():
        gathered.match_rows(finder)


def _collect_rows(finding: BatchMatch, together: dict[RowMatcher, _CombinedRows]) -> None:
    for finder, columns, question in finding.bindings.prepare_lookups(finding.batch):
        gathered = together.get(finder)
        if gathered is None:
            gathered = together[finder] = _CombinedRows(len(columns))
        gathered.add_rows(columns, question, finding)


class _CombinedRows:
    """Rows of several shapes for one index."""

    __slots__ = ("_columns", "_rows")

    def __init__(self, holes: int) -> None:
        self._columns: list[list[Any]] = [[] for _ in range(holes)]
        self._rows: list[tuple[BatchMatch, IndexLookup, int]] = []

    def add_rows(
        self, columns: list[Sequence[Any]], question: IndexLookup, finding: BatchMatch
    ) -> None:
        """Take in all rows of a shape."""
        for all_rows, column in zip(self._columns, columns, strict=True):
            all_rows += column
        batch = finding.batch
        if batch.size == 1:
            self._rows.append((finding, question, 0))
        else:
            self._rows += [(finding, question, row) for row in range(batch.size)]

    def match_rows(self, finder: RowMatcher) -> None:
        """Find them all, and sort what is found to where it belongs."""
        for at, postings in finder.match_rows(self._columns, len(self._rows)):
            finding, question, row = self._rows[at]
            question.sort_hits(
                [(row, postings)], finding.batch, finding.matching, finding.undecided
            )
