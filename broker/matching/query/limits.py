"""Limits on the size and the cost of one query (checklist F13)."""

from __future__ import annotations

import attrs


@attrs.frozen
class QueryLimits:
    """The node's limits for one query; a query beyond them is rejected at subscribe time.

    `max_nesting` counts brackets inside each other, `max_operators` comparisons and arithmetic on
    the result of another one: `1 + 2 + 3` has one. `max_cost` is in the units of `cost.py`: 5
    million are some 50 ms.
    """

    max_length: int = 4096
    max_nesting: int = 64
    max_steps: int = 256
    max_operators: int = 128
    max_cost: int = 5_000_000


#: For queries that were accepted under the node's limits, which may exceed the defaults.
NO_LIMITS = QueryLimits(
    max_length=1 << 30,
    max_nesting=1 << 10,
    max_steps=1 << 30,
    max_operators=1 << 30,
    max_cost=1 << 62,
)
