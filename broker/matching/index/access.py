"""How the values of a row lead to the members worth comparing (checklist F5, Le Subscribe)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, cast

from broker.matching.index.beginnings import Beginnings
from broker.matching.index.cells import Cells, crowd
from broker.matching.index.finder import Finder, Found
from broker.matching.index.holes import Hole, Literal, Operator
from broker.matching.index.member import Member
from broker.matching.index.way import Way, Ways

#: The constants that a shape has at some holes, by position.
Constants: TypeAlias = Mapping[int, Literal]
#: The same for holes of the key, in their order.
_Part: TypeAlias = tuple[tuple[int, Literal], ...]

#: Where no member can be.
NOWHERE = Way(None, ())


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

    __slots__ = (
        "_beginnings",
        "_cells",
        "_equalities",
        "_exact",
        "_parts",
        "_prefix",
        "_remaining",
        "_uses",
    )

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
        #: The ways by the literals at a part of the key.
        self._parts = Ways[_Part]()

    @property
    def has_prefix(self) -> bool:
        """Whether a prefix is part of the key."""
        return self._prefix is not None

    @property
    def changes(self) -> int:
        """Rises when a way of `among` leads elsewhere."""
        return self._cells.changes + self._parts.changes

    def add(self, member: Member) -> None:
        """Take in a member that is not here."""
        literals = member.literals
        self._cells.add(self._key(literals), member)
        if self._prefix is not None:
            self._beginnings.add(cast(bytes, literals[self._prefix]))
        for position, uses in self._uses.items():
            literal = literals[position]
            uses[literal] += 1
            if uses[literal] == 1:
                self._lead(position, literal)

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
                self._lead(position, literal)

    def among(self, constants: Constants) -> Way:
        """The way to the members that have these literals, or more where a part of the key is open.

        It leads nowhere while nobody has them.
        """
        part = tuple([(at, constants[at]) for at in self._equalities if at in constants])
        if any(literal != literal for _, literal in part):
            # A NaN equals nothing, but a dict would find it.
            return NOWHERE
        if self._prefix is None and len(part) == len(self._equalities):
            return self._cells.under(_key_of([literal for _, literal in part]))
        way = self._parts.get(part)
        if way is None:
            read = range(len(self._equalities) + len(self._remaining) + self.has_prefix)
            way = self._parts.open(part, self if self._is_used(part) else None, read)
        return way

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

    def _is_used(self, part: _Part) -> bool:
        """Whether each of the literals is some member's."""
        return all(literal in self._uses_at(position) for position, literal in part)

    def _uses_at(self, position: int) -> Counter[Literal]:
        uses = self._uses.get(position)
        if uses is None:
            uses = self._uses[position] = Counter(self._literals_at(position))
        return uses

    def _lead(self, position: int, literal: Literal) -> None:
        """The first member has come with this literal, or the last one gone."""
        for part, way in self._parts.all():
            if (position, literal) in part:
                self._parts.lead(way, self if self._is_used(part) else None)

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
