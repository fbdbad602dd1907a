"""The members of a query template, and their bitmaps on request."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from broker.matching.index.bitmap_index import BitmapIndex
from broker.matching.index.member import Member
from broker.matching.index.parameter import Literal, Parameter
from broker.matching.index.shrinking_dict import ShrinkingDict


class TemplateMembers:
    """Members of one template, distinct by their literals: bytes at text parameters, else floats.

    0.0 equals -0.0, and all NaNs are equal. Bitmaps are for formulas other than conjunctions, and
    for parameters with several values. They omit the `unnumbered` members, and are valid until a
    change.
    """

    __slots__ = ("_by_literals", "_parameters", "_index", "_unnumbered", "owner")

    def __init__(self, parameters: Sequence[Parameter], owner: object = None) -> None:
        self._parameters = tuple(parameters)
        self._by_literals = ShrinkingDict[tuple[Literal, ...], Member]()
        self.owner = owner
        #: Created with the first request for bitmaps. Until then no member has a number.
        self._index: BitmapIndex | None = None
        self._unnumbered: dict[Member, None] = {}

    def __len__(self) -> int:
        return len(self._by_literals)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._by_literals.values())

    def add(self, literals: Sequence[Literal]) -> Member:
        """Return the member with these literals, which may be known."""
        # All NaNs are one object, since a tuple finds it by identity.
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
        if self._by_literals.get(member.literals) is not member:
            raise KeyError(member)
        del self._by_literals[member.literals]
        if self._unnumbered.pop(member, _MISSING) is _MISSING and self._index is not None:
            self._index.remove(member)

    def number_members(self, limit: int) -> int:
        """Prepare up to `limit` further members for bitmaps; return their count."""
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
        return self._by_literals.values() if self._index is None else self._unnumbered.keys()

    @property
    def full_bitmap(self) -> int:
        return self._require_index().full_bitmap

    def match_bitmap(self, parameter: int, value: Literal) -> int:
        return self._require_index().match_bitmap(parameter, value)

    def select_members(self, bitmap: int) -> list[Member]:
        return self._require_index().select_members(bitmap)

    def _require_index(self) -> BitmapIndex:
        if self._index is None:
            self.number_members(len(self))
        assert self._index is not None
        return self._index


#: Marks a missing key where None is a value.
_MISSING = object()
