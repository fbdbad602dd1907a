"""All members of a query template."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from broker.matching.index.bitmap_index import BitmapIndex
from broker.matching.index.member import Member
from broker.matching.index.parameter import Literal, Parameter
from broker.matching.index.shrinking_dict import ShrinkingDict


class TemplateMembers:
    """The members of one template: literals, one for each parameter, distinct within the template.

    Literals and values are bytes at text parameters and floats at number parameters; as literals 0.0 and -0.0
    are the same, and so are all NaNs. A template without parameters has one member at limit, which every
    document satisfies.

    The bitmaps (`everyone`, `bits`, `members_of`) are for other formulas than a conjunction, and
    for parameters with several values. They are of all members, unless `number` has been called for some
    of them and the others are `unnumbered`. A bitmap means something until a member comes or goes.
    """

    __slots__ = ("_by_literals", "_parameters", "_index", "_unnumbered", "owner")

    def __init__(self, parameters: Sequence[Parameter], owner: object = None) -> None:
        """Members say that `owner` has them."""
        self._parameters = tuple(parameters)
        self._by_literals = ShrinkingDict[tuple[Literal, ...], Member]()
        self.owner = owner
        #: Made when somebody wants bitmaps, of members that wait for a number until then.
        self._index: BitmapIndex | None = None
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
            if len(key) != len(self._parameters):
                raise ValueError(f"{len(key)} literals for {len(self._parameters)} parameters")
            member = self._by_literals[key] = Member(key, owner=self.owner)
            if self._index is not None:
                self._index.add(member)
        return member

    def remove(self, member: Member) -> None:
        """Forget a member; raises `KeyError` when it is not one of these."""
        if self._by_literals.get(member.literals) is not member:
            raise KeyError(member)
        del self._by_literals[member.literals]
        if self._unnumbered.pop(member, _MISSING) is _MISSING and self._index is not None:
            self._index.remove(member)

    def number_members(self, limit: int) -> int:
        """Get up to so many members more ready for bitmaps; how many it took."""
        if self._index is None:
            self._index = BitmapIndex(dict(enumerate(self._parameters)))
            self._unnumbered = dict.fromkeys(self)
        taken = list(islice(self._unnumbered, limit))
        for member in taken:
            del self._unnumbered[member]
        self._index.add_many(taken)
        return len(taken)

    @property
    def unnumbered(self) -> Collection[Member]:
        """The members that bitmaps do not show yet."""
        return self._by_literals.values() if self._index is None else self._unnumbered.keys()

    @property
    def full_bitmap(self) -> int:
        """The bitmap of all."""
        return self._require_index().full_bitmap

    def match_bitmap(self, parameter: int, value: Literal) -> int:
        """The bitmap of exactly the members that a value satisfies at one parameter."""
        return self._require_index().match_bitmap(parameter, value)

    def select_members(self, bitmap: int) -> list[Member]:
        """The members of a bitmap made of what `everyone` and `bits` gave."""
        return self._require_index().select_members(bitmap)

    def _require_index(self) -> BitmapIndex:
        if self._index is None:
            self.number_members(len(self))
        assert self._index is not None
        return self._index


#: What stands for nothing where None is a value.
_MISSING = object()
