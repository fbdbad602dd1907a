"""All members of a query template."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from broker.matching.index.holes import Hole, Literal
from broker.matching.index.member import Member
from broker.matching.index.shrinking import ShrinkingDict
from broker.matching.index.table import Table


class Members:
    """The members of one template: literals, one for each hole, distinct within the template.

    Literals and values are bytes at text holes and floats at number holes; as literals 0.0 and -0.0
    are the same, and so are all NaNs. A template without holes has one member at most, which every
    document satisfies.

    The bitmaps (`everyone`, `bits`, `members_of`) are for other formulas than a conjunction, and
    for holes with several values. They are of all members, unless `number` has been called for some
    of them and the others are `unnumbered`. A bitmap means something until a member comes or goes.
    """

    __slots__ = ("_by_literals", "_holes", "_table", "_unnumbered", "owner")

    def __init__(self, holes: Sequence[Hole], owner: object = None) -> None:
        """Members say that `owner` has them."""
        self._holes = tuple(holes)
        self._by_literals = ShrinkingDict[tuple[Literal, ...], Member]()
        self.owner = owner
        #: Made when somebody wants bitmaps, of members that wait for a number until then.
        self._table: Table | None = None
        self._unnumbered: dict[Member, None] = {}

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
            member = self._by_literals[key] = Member(key, owner=self.owner)
            if self._table is not None:
                self._table.add(member)
        return member

    def remove(self, member: Member) -> None:
        """Forget a member; raises `KeyError` when it is not one of these."""
        if self._by_literals.get(member.literals) is not member:
            raise KeyError(member)
        del self._by_literals[member.literals]
        if self._unnumbered.pop(member, _HERE) is _HERE and self._table is not None:
            self._table.remove(member)

    def number(self, most: int) -> int:
        """Get up to so many members more ready for bitmaps; how many it took."""
        if self._table is None:
            self._table = Table(dict(enumerate(self._holes)))
            self._unnumbered = dict.fromkeys(self)
        taken = list(islice(self._unnumbered, most))
        for member in taken:
            del self._unnumbered[member]
        self._table.add_many(taken)
        return len(taken)

    @property
    def unnumbered(self) -> Collection[Member]:
        """The members that bitmaps do not show yet."""
        return self._by_literals.values() if self._table is None else self._unnumbered.keys()

    @property
    def everyone(self) -> int:
        """The bitmap of all."""
        return self._numbered().everyone

    def bits(self, hole: int, value: Literal) -> int:
        """The bitmap of exactly the members that a value satisfies at one hole."""
        return self._numbered().bits(hole, value)

    def members_of(self, bitmap: int) -> list[Member]:
        """The members of a bitmap made of what `everyone` and `bits` gave."""
        return self._numbered().members_of(bitmap)

    def _numbered(self) -> Table:
        if self._table is None:
            self.number(len(self))
        assert self._table is not None
        return self._table


#: What stands for nothing where None is a value.
_HERE = object()
