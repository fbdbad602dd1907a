"""One member of a query template."""

from __future__ import annotations

from typing import Any

from broker.matching.index.parameter import Literal


class Member:
    """The literals of one query of a template, a literal for each parameter.

    `entry` and `owner` are free for the engine, and so are `sole_number` and `sole_pattern`: what
    each match wants of the entry. `partition` and `number` say where an index has put the member: it
    can be in one at a time.
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
