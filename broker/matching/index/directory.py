"""Which sheets of a table a row can find anything in, by the weakest bounds in each sheet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import and_
from typing import Any

from broker.matching.index.bitmap import numbers
from broker.matching.index.cumulative import Cumulative
from broker.matching.index.holes import Hole
from broker.matching.index.sheet import Sheet


class Directory:
    """Made of sheets as they are; a table makes a new one after a change, when it is asked."""

    __slots__ = ("_by_position", "_sheets")

    def __init__(self, holes: Mapping[int, Hole], sheets: Sequence[Sheet]) -> None:
        self._sheets = len(sheets)
        self._by_position: list[tuple[int, Cumulative]] = []
        for position, hole in holes.items():
            if hole.threshold:
                weakest = [
                    (bound, 1 << at)
                    for at, sheet in enumerate(sheets)
                    if (bound := sheet.weakest(position)) is not None
                ]
                weakest.sort()
                cumulative = Cumulative(hole.operator)
                cumulative.load([bound for bound, _ in weakest], [bit for _, bit in weakest])
                self._by_position.append((position, cumulative))

    def rows_of(self, columns: Sequence[Sequence[Any]], rows: int) -> list[Sequence[int]]:
        """For each sheet the rows, ascending, that are to be looked up in it."""
        if not self._by_position:
            return [range(rows)] * self._sheets
        combined: list[int] | None = None
        for position, cumulative in self._by_position:
            column = cumulative.column(columns[position])
            combined = column if combined is None else list(map(and_, combined, column))
        chosen: list[list[int]] = [[] for _ in range(self._sheets)]
        for row, bits in enumerate(combined or ()):
            for at in numbers(bits):
                chosen[at].append(row)
        return list(chosen)
