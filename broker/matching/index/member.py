"""A member of a query template."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import attrs

from broker.matching.index.parameter import Literal


@attrs.define(eq=False, weakref_slot=False)
class Member:
    """The literals of one query of a template, one for each parameter.

    `entry` and `owner` are the engine's; `sole_number` and `sole_pattern` cache values of the
    entry. `partition` and `number` are the place in one index.
    """

    literals: tuple[Literal, ...]
    entry: Any = None
    owner: Any = None
    sole_number: int = 0
    sole_pattern: int = 0
    partition: object = None
    number: int = 0


#: Values by parameter position and row.
Columns: TypeAlias = Sequence[Sequence[Any]]
#: Results for equal columns, shared by indexes.
ResultCache: TypeAlias = dict[Any, Any] | None
#: Rows with the members that they match.
RowMatches: TypeAlias = Sequence[tuple[int, Sequence[Member]]]


class RowMatcher(Protocol):
    def match_rows(self, columns: Columns, rows: int, cache: ResultCache = None) -> RowMatches:
        """Match rows with members. A row may be returned several times, with different members.

        `columns` has `rows` values for each position, once for parameters of one subject. `cache`
        shares results for equal columns among indexes.
        """
