"""All members of a query template, and which of them a document's values satisfy (F2, F5)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from broker.content.index.access import access_path
from broker.content.index.holes import Hole, Literal
from broker.content.index.member import Member
from broker.content.index.shrinking import ShrinkingDict
from broker.content.index.table import Table
from broker.content.index.windows import windows


class Members:
    """The members of one template: literals, one for each hole, distinct within the template.

    Literals and values are bytes at text holes and floats at number holes; as literals 0.0 and -0.0
    are the same, and so are all NaNs. A template without holes has one member at most, which every
    document satisfies.

    `find_rows` wants one value for each hole and answers for all holes together. The bitmaps
    (`everyone`, `bits`, `members_of`) are for other formulas than a conjunction, and for holes with
    several values. A bitmap means something while `version` is what it was.
    """

    __slots__ = (
        "_access",
        "_by_literals",
        "_dense",
        "_holes",
        "_shadows",
        "_table",
        "_windows",
        "version",
    )

    def __init__(self, holes: Sequence[Hole]) -> None:
        self._holes = tuple(holes)
        self._by_literals = ShrinkingDict[tuple[Literal, ...], Member]()
        #: Changes with every member that comes or goes.
        self.version = 0
        self._windows = windows(dict(enumerate(self._holes)))
        self._table = Table(dict(enumerate(self._holes)))
        self._access = access_path(self._holes, self._table)
        self._dense = isinstance(self._access, Table)
        #: Where the access path is not the table of all holes, that table has stand-ins: it
        #: numbers them its own way. None until somebody wants bitmaps.
        self._shadows: ShrinkingDict[Member, Member] | None = None

    def __len__(self) -> int:
        return len(self._by_literals)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._by_literals.values())

    def add(self, literals: Sequence[Literal]) -> Member:
        """The member with these literals, new if there is none."""
        # One NaN for all: a tuple finds it by identity.
        key = tuple([each if each == each else math.nan for each in literals])
        member = self._by_literals.get(key)
        if member is None:
            if len(key) != len(self._holes):
                raise ValueError(f"{len(key)} literals for {len(self._holes)} holes")
            member = self._by_literals[key] = Member(key)
            self.version += 1
            if self._reachable(member):
                self._access.add(member)
            if self._shadows is not None:
                self._table.add(self._shadow_of(member, self._shadows))
        return member

    def remove(self, member: Member) -> None:
        """Forget a member; raises `KeyError` when it is not one of these."""
        if self._by_literals.get(member.literals) is not member:
            raise KeyError(member)
        del self._by_literals[member.literals]
        self.version += 1
        if self._reachable(member):
            self._access.remove(member)
        if self._shadows is not None:
            self._table.remove(self._shadows[member])
            del self._shadows[member]

    def find_rows(
        self,
        columns: Sequence[Sequence[Any]],
        rows: int,
        known: dict[Any, Any] | None = None,
    ) -> Sequence[tuple[int, Sequence[Member]]]:
        """The members that each row of a batch satisfies; a row may come again, with others.

        `columns` has for each hole a sequence of `rows` values; a constant is `[value] * rows`.
        Windows are found fastest where both their holes have the same sequence. `known`, if given,
        remembers what several templates compute of the same columns.
        """
        for window in self._windows:
            if columns[window.lower] is not columns[window.upper]:
                return self._by_table(columns, rows)
        return self._access.find_rows(columns, rows, known)

    @property
    def everyone(self) -> int:
        """The bitmap of all members."""
        return self._numbered().everyone

    def bits(self, hole: int, value: Literal) -> int:
        """The bitmap of exactly the members that a value satisfies at one hole."""
        return self._numbered().bits(hole, value)

    def members_of(self, bitmap: int) -> list[Member]:
        """The members of a bitmap made of what `everyone` and `bits` gave."""
        members = self._numbered().members_of(bitmap)
        return members if self._shadows is None else [shadow.entry for shadow in members]

    def _by_table(
        self, columns: Sequence[Sequence[Any]], rows: int
    ) -> Sequence[tuple[int, Sequence[Member]]]:
        found = self._numbered().find_rows(columns, rows)
        if self._shadows is None:
            return found
        return [(row, [shadow.entry for shadow in shadows]) for row, shadows in found]

    def _reachable(self, member: Member) -> bool:
        """Whether the access path has the member. Hashes must not have NaN, and need not."""
        if self._dense:
            return True
        pairs = zip(self._holes, member.literals, strict=True)
        return not any(hole.never(literal) for hole, literal in pairs)

    def _numbered(self) -> Table:
        """The table of all holes; filled now if this is the first time that it is wanted."""
        if not self._dense and self._shadows is None:
            self._shadows = ShrinkingDict()
            shadows = [self._shadow_of(member, self._shadows) for member in self]
            self._table = Table(dict(enumerate(self._holes)), shadows)
        return self._table

    @staticmethod
    def _shadow_of(member: Member, shadows: dict[Member, Member]) -> Member:
        shadow = shadows[member] = Member(member.literals, entry=member)
        return shadow
