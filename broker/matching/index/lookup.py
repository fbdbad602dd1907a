"""The lookup to the members that documents with some constants satisfy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import repeat
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from broker.matching.index.comparison import Compare
from broker.matching.index.member import Member
from broker.matching.index.row_matcher import RowMatcher, RowMatches

K = TypeVar("K")


class LinearScan:
    """Members that are compared one by one; the index puts others in their place."""

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
        """As `PredicateIndex.find_rows`."""
        found: list[tuple[int, Sequence[Member]]] = []
        self._compare(zip(range(rows), repeat(self.members)), columns, found)
        return found


class Lookup:
    """Kept up to date by its index as long as somebody has it.

    So a change of the index touches those who asked for what has changed, and nobody else.
    """

    __slots__ = ("__weakref__", "matcher", "positions")

    def __init__(self, finder: RowMatcher | None, read: Collection[int]) -> None:
        self.matcher = finder
        """What finds the members; None while there are none."""
        self.positions = read
        """The positions of the columns that it reads."""


class LookupTable(Generic[K]):
    """The lookups that somebody has, by what they lead to."""

    __slots__ = ("_by_key", "version")

    def __init__(self) -> None:
        self._by_key: WeakValueDictionary[K, Lookup] = WeakValueDictionary()
        self.version = 0
        """Rises when a lookup leads to another finder, or to none, or to one again."""

    def get(self, key: K) -> Lookup | None:
        """The lookup under a key, None if nobody has it."""
        return self._by_key.get(key)

    def create_lookup(self, key: K, finder: RowMatcher | None, read: Collection[int]) -> Lookup:
        """A new lookup, which stays here as long as somebody has it."""
        lookup = self._by_key[key] = Lookup(finder, read)
        return lookup

    def redirect(self, lookup: Lookup, finder: RowMatcher | None) -> None:
        """Let a lookup lead elsewhere."""
        if lookup.matcher is not finder:
            lookup.matcher = finder
            self.version += 1

    def items(self) -> Iterable[tuple[K, Lookup]]:
        """All of them, each with its key."""
        return list(self._by_key.items())
