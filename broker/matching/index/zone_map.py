"""Zone map: the partitions that can match a row, by the weakest bounds of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import and_
from typing import Any

from broker.matching.bitmap import iterate_numbers
from broker.matching.index.bound_block import CumulativeBitmaps
from broker.matching.index.parameter import Parameter
from broker.matching.index.partition import Partition


class ZoneMap:
    """A snapshot of the partitions. The bitmap index builds a new one after a change."""

    __slots__ = ("_by_position", "_partition_count")

    def __init__(
        self, parameters: Mapping[int, Parameter], partitions: Sequence[Partition]
    ) -> None:
        self._partition_count = len(partitions)
        self._by_position: list[tuple[int, CumulativeBitmaps]] = []
        for position, parameter in parameters.items():
            if parameter.is_threshold:
                weakest = [
                    (bound, 1 << at)
                    for at, partition in enumerate(partitions)
                    if (bound := partition.weakest_bound(position)) is not None
                ]
                weakest.sort()
                cumulative = CumulativeBitmaps(parameter.operator)
                cumulative.load([bound for bound, _ in weakest], [bit for _, bit in weakest])
                self._by_position.append((position, cumulative))

    def select_rows(self, columns: Sequence[Sequence[Any]], rows: int) -> list[Sequence[int]]:
        """Return for each partition the ascending rows to look up in it."""
        if not self._by_position:
            return [range(rows)] * self._partition_count
        combined: list[int] | None = None
        for position, cumulative in self._by_position:
            column = cumulative.match_column(columns[position])
            combined = column if combined is None else list(map(and_, combined, column))
        chosen: list[list[int]] = [[] for _ in range(self._partition_count)]
        for row, bits in enumerate(combined or ()):
            for at in iterate_numbers(bits):
                chosen[at].append(row)
        return list(chosen)
