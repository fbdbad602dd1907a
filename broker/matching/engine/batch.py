"""Values of a batch's documents of one shape, by column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker.matching.partial.source import Computed, Constant, Slot, Source


class ShapeBatch:
    """Slot values of documents of one shape. Computed columns are stored."""

    __slots__ = ("_columns", "_slots", "index_cache", "size")

    def __init__(self, values: Sequence[tuple[bytes, ...]]) -> None:
        self.size = len(values)
        self._slots = list(zip(*values, strict=True))
        self._columns: dict[Source, Any] = {}
        self.index_cache: dict[Any, Any] = {}

    def column(self, source: Source) -> Sequence[Any]:
        if isinstance(source, Slot):
            return self._slots[source.number]
        found = self._columns.get(source)
        if found is None:
            if isinstance(source, Computed):
                columns = [self.column(argument) for argument in source.arguments]
                found = list(map(source.function, *columns))
            else:
                assert isinstance(source, Constant)
                found = [source.value] * self.size
            self._columns[source] = found
        return found
