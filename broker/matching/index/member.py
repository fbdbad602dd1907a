"""A member of a query template."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from broker.matching.index.parameter import Literal


class Member:
    """The literals of one query of a template, one for each parameter.

    `entry` and `owner` are the engine's; `sole_number` and `sole_pattern` cache values of the
    entry. `partition` and `number` are the place in one index.
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


#: Rows with the members that they match.
RowMatches: TypeAlias = Sequence[tuple[int, Sequence[Member]]]


class RowMatcher(Protocol):
    def match_rows(
        self,
        columns: Sequence[Sequence[Any]],
        rows: int,
        cache: dict[Any, Any] | None = None,
    ) -> RowMatches:
        """Match rows with members. A row may be returned several times, with different members.

        `columns` has `rows` values for each position, once for parameters of one subject. `cache`
        shares results for equal columns among indexes.
        """
