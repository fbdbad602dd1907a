"""Cached lookups: the members that match documents with some constants."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import repeat
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

import attrs

from broker.matching.index.comparison import Compare
from broker.matching.index.member import Columns, Member, ResultCache, RowMatcher, RowMatches

K = TypeVar("K")


@attrs.define(eq=False)
class LinearScan:
    """A few members, compared one by one. The index replaces them."""

    _compare: Compare
    members: tuple[Member, ...]

    def match_rows(self, columns: Columns, rows: int, _cache: ResultCache = None) -> RowMatches:
        found: list[tuple[int, Sequence[Member]]] = []
        self._compare(zip(range(rows), repeat(self.members)), columns, found)
        return found


@attrs.define(eq=False)
class Lookup:
    """The way to the members with some constants, updated by its index while referenced."""

    matcher: RowMatcher | None
    """Finds the members; None while there are none."""
    positions: Collection[int]


class LookupTable(Generic[K]):
    __slots__ = ("_by_key", "version")

    def __init__(self) -> None:
        self._by_key: WeakValueDictionary[K, Lookup] = WeakValueDictionary()
        self.version = 0
        """Rises when a lookup gets another matcher, loses it, or gets one again."""

    def get(self, key: K) -> Lookup | None:
        return self._by_key.get(key)

    def create_lookup(self, key: K, matcher: RowMatcher | None, read: Collection[int]) -> Lookup:
        lookup = self._by_key[key] = Lookup(matcher, read)
        return lookup

    def redirect(self, lookup: Lookup, matcher: RowMatcher | None) -> None:
        if lookup.matcher is not matcher:
            lookup.matcher = matcher
            self.version += 1

    def items(self) -> Iterable[tuple[K, Lookup]]:
        return list(self._by_key.items())
