"""A batch's documents of several shapes, matched at once.

Most shapes are rare: they have a few documents in a batch, and what a look-up costs by itself would
be more than what the documents add to it. So such shapes are looked up together, wherever one index
answers for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from broker.matching.index.row_matcher import RowMatcher
from broker.matching.switching.batch import Batch
from broker.matching.switching.bound import Bound, Matching, Question, Undecided

#: Documents of one shape from which on it is looked up by itself.
MANY: Final = 12


class Finding:
    """What was found for the documents of one shape; one member may come twice for a row."""

    __slots__ = ("batch", "bound", "matching", "undecided")

    def __init__(self, bound: Bound, batch: Batch) -> None:
        self.bound = bound
        self.batch = batch
        self.matching: Matching = [None] * batch.size
        """For each row the members that match, None for none."""
        self.undecided: Undecided = {}
        """By row, the queries that may match."""


def find(findings: Sequence[Finding]) -> None:
    """Fill in what is found."""
    together: dict[RowMatcher, _Together] = {}
    for finding in findings:
        bound, batch = finding.bound, finding.batch
        if batch.size < MANY:
            _gather(finding, together)
            bound.find_alone(batch, finding.matching, finding.undecided)
        else:
            bound.find(batch, finding.matching, finding.undecided)
    for finder, gathered in together.items():
        gathered.look_up(finder)


def _gather(finding: Finding, together: dict[RowMatcher, _Together]) -> None:
    for finder, columns, question in finding.bound.asked(finding.batch):
        gathered = together.get(finder)
        if gathered is None:
            gathered = together[finder] = _Together(len(columns))
        gathered.add(columns, question, finding)


class _Together:
    """Rows of several shapes for one index."""

    __slots__ = ("_columns", "_rows")

    def __init__(self, holes: int) -> None:
        self._columns: list[list[Any]] = [[] for _ in range(holes)]
        self._rows: list[tuple[Finding, Question, int]] = []

    def add(self, columns: list[Sequence[Any]], question: Question, finding: Finding) -> None:
        """Take in all rows of a shape."""
        for all_rows, column in zip(self._columns, columns, strict=True):
            all_rows += column
        batch = finding.batch
        if batch.size == 1:
            self._rows.append((finding, question, 0))
        else:
            self._rows += [(finding, question, row) for row in range(batch.size)]

    def look_up(self, finder: RowMatcher) -> None:
        """Find them all, and sort what is found to where it belongs."""
        for at, postings in finder.match_rows(self._columns, len(self._rows)):
            finding, question, row = self._rows[at]
            question.sort([(row, postings)], finding.batch, finding.matching, finding.undecided)
