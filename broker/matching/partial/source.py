"""Sources of values in the documents of one shape.

Equal sources are computed once for a document. Texts are UTF-8 bytes, numbers are floats.
"""

from __future__ import annotations

from collections.abc import Callable
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
