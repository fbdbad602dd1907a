"""The interface of everything that matches rows of values with members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from broker.matching.index.member import Member

#: Rows with the members that they match.
RowMatches: TypeAlias = Sequence[tuple[int, Sequence[Member]]]


class RowMatcher(Protocol):
    """Members by the values of their parameters."""

    def match_rows(
        self,
        columns: Sequence[Sequence[Any]],
        rows: int,
        cache: dict[Any, Any] | None = None,
    ) -> RowMatches:
        """Match rows with members. A row may be returned several times, with different members.

        `columns` has `rows` values for each parameter position. Parameters of one subject have the
        same column. `cache` shares results for equal columns among several indexes.
        """
