"""Cached lookups: the members that match documents with some constants."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import repeat
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from broker.matching.index.comparison import Compare
from broker.matching.index.member import Member, RowMatcher, RowMatches

K = TypeVar("K")


class LinearScan:
    """A few members, compared one by one. The index replaces them."""

    __slots__ = ("_compare", "members")

    def __init__(self, compare: Compare, members: tuple[Member, ...]) -> None:
        self._compare = compare
        self.members = members

    def match_rows(
        self,
        columns: Sequence[Sequence[Any]],
        rows: int,
        _cache: dict[Any, Any] | None = None,
    ) -> RowMatches:
        found: list[tuple[int, Sequence[Member]]] = []
        self._compare(zip(range(rows), repeat(self.members)), columns, found)
        return found


class Lookup:
    """The way to the members with some constants, updated by its index while referenced."""

    __slots__ = ("__weakref__", "matcher", "positions")

    def __init__(self, matcher: RowMatcher | None, read: Collection[int]) -> None:
        self.matcher = matcher
        """Finds the members; None while there are none."""
        self.positions = read


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
