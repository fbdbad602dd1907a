"""What finds members by values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from broker.matching.index.member import Member

#: Rows and the members that each satisfies.
Found: TypeAlias = Sequence[tuple[int, Sequence[Member]]]


class Finder(Protocol):
    """Members that are found by the values of their holes, by position."""

    def find_rows(
        self,
        columns: Sequence[Sequence[Any]],
        rows: int,
        known: dict[Any, Any] | None = None,
    ) -> Found:
        """The members that each row of a batch satisfies; a row may come again, with others.

        `columns` has for each hole a sequence of `rows` values, the same for holes of one subject.
        `known`, if given, remembers what several indexes compute of the same columns.
        """
