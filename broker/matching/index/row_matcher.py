"""What finds members by values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from broker.matching.index.member import Member

#: Rows and the members that each satisfies.
RowMatches: TypeAlias = Sequence[tuple[int, Sequence[Member]]]


class RowMatcher(Protocol):
    """Members that are found by the values of their parameters, by position."""

    def match_rows(
        self,
        columns: Sequence[Sequence[Any]],
        rows: int,
        cache: dict[Any, Any] | None = None,
    ) -> RowMatches:
        """The members that each row of a batch satisfies; a row may come again, with others.

        `columns` has for each parameter a sequence of `rows` values, the same for parameters of one subject.
        `known`, if given, remembers what several indexes compute of the same columns.
        """
