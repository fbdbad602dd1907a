"""How the values of a row lead to the members worth comparing (checklist F5, Le Subscribe)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, cast

from broker.content.index.beginnings import Beginnings
from broker.content.index.cells import Cells, Found, crowd
from broker.content.index.holes import Hole, Literal, Operator
from broker.content.index.member import Member

#: The constants that a shape has at some holes, by position.
Constants: TypeAlias = Mapping[int, Literal]


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


class AccessPath(Finder, Protocol):
    """Members, and the ways to them by the values of the holes."""

    def add(self, member: Member) -> None:
        """Take in a member that is not here."""

    def remove(self, member: Member) -> None:
        """Forget a member that is here."""


def access_path(holes: Sequence[Hole]) -> AccessPath:
    """By a key of equalities and a prefix, else as a crowd of all.

    Members of one key that are many are a crowd in turn.
    """
    equalities = [position for position, hole in enumerate(holes) if hole.equality]
    prefixes = [i for i, hole in enumerate(holes) if hole.operator is Operator.STARTS_WITH]
    if equalities or prefixes:
        return ByKey(holes, equalities, prefixes[0] if prefixes else None)
    return crowd(dict(enumerate(holes)))


class ByKey:
    """A hash of the literals at all holes that ask for equality, and at one of `starts-with`."""

    __slots__ = ("_beginnings", "_cells", "_equalities", "_exact", "_prefix", "_remaining", "_uses")

    def __init__(
        self, holes: Sequence[Hole], equalities: Sequence[int], prefix: int | None
    ) -> None:
        self._equalities = tuple(equalities)
        self._prefix = prefix
        used = {*equalities, prefix}
        self._remaining = {at: hole for at, hole in enumerate(holes) if at not in used}
        self._exact = not self._remaining
        self._cells = Cells(self._remaining)
        self._beginnings = Beginnings()
        #: How many members have a literal, for holes of the key of which that was asked.
        self._uses: dict[int, Counter[Literal]] = {}

    @property
    def has_prefix(self) -> bool:
        """Whether a prefix is part of the key."""
        return self._prefix is not None

    @property
    def changes(self) -> int:
        """Rises when `among` would answer otherwise."""
        return self._cells.changes

    def add(self, member: Member) -> None:
        """Take in a member that is not here."""
        literals = member.literals
        self._cells.add(self._key(literals), member)
        if self._prefix is not None:
            self._beginnings.add(cast(bytes, literals[self._prefix]))
        for position, uses in self._uses.items():
            uses[literals[position]] += 1

    def remove(self, member: Member) -> None:
        """Forget a member that is here."""
        literals = member.literals
        self._cells.remove(self._key(literals), member)
        if self._prefix is not None:
            self._beginnings.remove(cast(bytes, literals[self._prefix]))
        for position, uses in self._uses.items():
            literal = literals[position]
            uses[literal] -= 1
            if not uses[literal]:
                del uses[literal]

    def among(self, constants: Constants) -> tuple[Finder, Collection[int]] | None:
        """What finds the members that have these literals; None if there are none.

        With the positions of the columns that it reads.
        """
        of_key = [position for position in self._equalities if position in constants]
        if self._prefix is not None or len(of_key) < len(self._equalities):
            if all(self._is_used(at, constants[at]) for at in of_key):
                return self, range(len(self._equalities) + len(self._remaining) + self.has_prefix)
            return None
        if any(constants[at] != constants[at] for at in of_key):
            # A NaN equals nothing, but a dict would find it.
            return None
        finder = self._cells.under(_key_of([constants[at] for at in of_key]))
        return None if finder is None else (finder, self._remaining)

    def find_rows(
        self,
        columns: Sequence[Sequence[Any]],
        rows: int,
        known: dict[Any, Any] | None = None,
    ) -> Found:
        """See `Finder`."""
        get = self._cells.by_key.get
        keys = self._keys(columns)
        hits = [(row, cell) for row, key in keys if (cell := get(key)) is not None]
        if self._exact:
            # Without holes that remain, no cell is more than a tuple.
            return cast("list[tuple[int, Sequence[Member]]]", hits)
        return self._cells.confirmed(hits, columns, rows, known) if hits else ()

    def _keys(self, columns: Sequence[Sequence[Any]]) -> Iterable[tuple[int, Any]]:
        """Rows with their keys."""
        equal = [columns[position] for position in self._equalities]
        if self._prefix is None:
            return enumerate(equal[0] if len(equal) == 1 else zip(*equal, strict=True))
        beginnings = self._beginnings.of(columns[self._prefix])
        if not equal:
            return beginnings
        return [(row, (*(part[row] for part in equal), prefix)) for row, prefix in beginnings]

    def _is_used(self, position: int, literal: Literal) -> bool:
        uses = self._uses.get(position)
        if uses is None:
            uses = self._uses[position] = Counter(self._literals_at(position))
        return literal in uses

    def _literals_at(self, position: int) -> Iterator[Literal]:
        at = self._equalities.index(position)
        single = len(self._equalities) + self.has_prefix == 1
        for key, cell in self._cells.by_key.items():
            literal = key if single else cast("tuple[Literal, ...]", key)[at]
            for _ in range(len(cell) if isinstance(cell, tuple) else cell.size):
                yield cast(Literal, literal)

    def _key(self, literals: Sequence[Literal]) -> Any:
        parts = [literals[position] for position in self._equalities]
        if self._prefix is not None:
            parts.append(literals[self._prefix])
        return _key_of(parts)


def _key_of(parts: Sequence[Literal]) -> Any:
    """A literal where there is but one part."""
    return parts[0] if len(parts) == 1 else tuple(parts)
