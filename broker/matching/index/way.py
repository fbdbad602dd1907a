"""The way to the members that documents with some constants satisfy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import repeat
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from broker.matching.index.comparison import Compare
from broker.matching.index.finder import Finder, Found
from broker.matching.index.member import Member

K = TypeVar("K")


class Few:
    """Members that are compared one by one; the index puts others in their place."""

    __slots__ = ("_compare", "members")

    def __init__(self, compare: Compare, members: tuple[Member, ...]) -> None:
        self._compare = compare
        self.members = members

    def find_rows(
        self,
        columns: Sequence[Sequence[Any]],
        rows: int,
        _known: dict[Any, Any] | None = None,
    ) -> Found:
        """As `AccessPath.find_rows`."""
        found: list[tuple[int, Sequence[Member]]] = []
        self._compare(zip(range(rows), repeat(self.members)), columns, found)
        return found


class Way:
    """Kept up to date by its index as long as somebody has it.

    So a change of the index touches those who asked for what has changed, and nobody else.
    """

    __slots__ = ("__weakref__", "finder", "read")

    def __init__(self, finder: Finder | None, read: Collection[int]) -> None:
        self.finder = finder
        """What finds the members; None while there are none."""
        self.read = read
        """The positions of the columns that it reads."""


class Ways(Generic[K]):
    """The ways that somebody has, by what they lead to."""

    __slots__ = ("_by_key", "changes")

    def __init__(self) -> None:
        self._by_key: WeakValueDictionary[K, Way] = WeakValueDictionary()
        self.changes = 0
        """Rises when a way leads to another finder, or to none, or to one again."""

    def get(self, key: K) -> Way | None:
        """The way under a key, None if nobody has it."""
        return self._by_key.get(key)

    def open(self, key: K, finder: Finder | None, read: Collection[int]) -> Way:
        """A new way, which stays here as long as somebody has it."""
        way = self._by_key[key] = Way(finder, read)
        return way

    def lead(self, way: Way, finder: Finder | None) -> None:
        """Let a way lead elsewhere."""
        if way.finder is not finder:
            way.finder = finder
            self.changes += 1

    def all(self) -> Iterable[tuple[K, Way]]:
        """All of them, each with its key."""
        return list(self._by_key.items())
