"""Sources of values in the documents of one shape.

Equal sources are computed once for a document. Texts are UTF-8 bytes, numbers are floats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import attrs

from broker.matching.shape.tree import Value

# Sources are immutable. They are not `attrs.frozen`: creating a frozen instance takes three times
# as long.


@attrs.define(unsafe_hash=True, cache_hash=True)
class Constant:
    # Compared by spelling: 0.0 differs from -0.0, and NaN equals itself.
    value: Any = attrs.field(eq=repr)


@attrs.define(unsafe_hash=True, cache_hash=True)
class Slot:
    number: int


@attrs.define(unsafe_hash=True, cache_hash=True)
class Computed:
    """`function(*arguments)`, with a pure, total, module-level function, compared by identity."""

    function: Callable[..., Any]
    arguments: tuple[Source, ...]


Source: TypeAlias = Constant | Slot | Computed


def source_of(value: Value) -> Source:
    return Slot(value) if isinstance(value, int) else Constant(value)


def computed(function: Callable[..., Any], *arguments: Source) -> Source:
    """Return `function(*arguments)`, evaluated now if all arguments are constants."""
    values = []
    for argument in arguments:
        if not isinstance(argument, Constant):
            return Computed(function, arguments)
        values.append(argument.value)
    return Constant(function(*values))


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
