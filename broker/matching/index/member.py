"""A member of a query template."""

from __future__ import annotations

from typing import Any

from broker.matching.index.parameter import Literal


class Member:
    """The literals of one query of a template, one for each parameter.

    The engine uses `entry` and `owner`, and `sole_number` and `sole_pattern`, which cache values of
    the entry for matching. `partition` and `number` are the member's place in one index.
    """

    __slots__ = (
        "entry",
        "literals",
        "number",
        "owner",
        "partition",
        "sole_number",
        "sole_pattern",
    )

    def __init__(self, literals: tuple[Literal, ...], entry: Any = None, owner: Any = None) -> None:
        self.literals = literals
        self.entry: Any = entry
        self.owner: Any = owner
        self.sole_number = self.sole_pattern = 0
        self.partition: object = None
        self.number = 0

    def __repr__(self) -> str:
        return f"Member({self.literals!r})"
