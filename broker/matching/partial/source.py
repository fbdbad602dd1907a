"""Where a value comes from in the documents of one shape.

A source is a constant, a slot, or a function of other sources. Equal sources are computed once for
a document, whichever queries need them. Texts are UTF-8 bytes, numbers are floats, checks bools.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import attrs

from broker.matching.shape.tree import Value

# Sources never change. They are not `attrs.frozen`, for that takes three times as long to make one.


@attrs.define(unsafe_hash=True, cache_hash=True)
class Constant:
    """The same value in every document of the shape."""

    # By its spelling: 0.0 is not -0.0 here, and a NaN is itself.
    value: Any = attrs.field(eq=repr)


@attrs.define(unsafe_hash=True, cache_hash=True)
class Slot:
    """What a slot holds, as text."""

    number: int


@attrs.define(unsafe_hash=True, cache_hash=True)
class Computed:
    """`function(*arguments)`. The function is pure, total and module-level: equal by identity."""

    function: Callable[..., Any]
    arguments: tuple[Source, ...]


Source: TypeAlias = Constant | Slot | Computed


def source_of(value: Value) -> Source:
    """The source of a node's value."""
    return Slot(value) if isinstance(value, int) else Constant(value)


def computed(function: Callable[..., Any], *arguments: Source) -> Source:
    """`function(*arguments)`, computed now if all arguments are constants."""
    values = []
    for argument in arguments:
        if not isinstance(argument, Constant):
            return Computed(function, arguments)
        values.append(argument.value)
    return Constant(function(*values))
