"""Predicate index: from the values of a row to candidate members (checklist F5, Le Subscribe)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

from broker.matching.index.bucket import Buckets, MemberIndex, build_member_index
from broker.matching.index.lookup import Lookup, LookupTable
from broker.matching.index.member import Columns, Member, ResultCache, RowMatches
from broker.matching.index.parameter import Literal, Operator, Parameter
from broker.matching.index.substring_index import PrefixIndex

#: Constants of a shape, by parameter position.
Constants: TypeAlias = Mapping[int, Literal]
#: Constants at some parameters of the key, in order.
_PartialKey: TypeAlias = tuple[tuple[int, Literal], ...]

#: The lookup without members.
EMPTY_LOOKUP = Lookup(None, ())


def build_index(parameters: Sequence[Parameter]) -> HashIndex | MemberIndex:
    """Build a hash index if there are equalities or a prefix, else index all members together."""
    equalities = [
        position for position, parameter in enumerate(parameters) if parameter.is_equality
    ]
    prefixes = [
        i for i, parameter in enumerate(parameters) if parameter.operator is Operator.STARTS_WITH
    ]
    if equalities or prefixes:
        return HashIndex(parameters, equalities, prefixes[0] if prefixes else None)
    return build_member_index(dict(enumerate(parameters)))


class HashIndex:
    """Hash of the literals at all equality parameters and at one `starts-with` parameter."""

    def __init__(
        self, parameters: Sequence[Parameter], equalities: Sequence[int], prefix: int | None
    ) -> None:
        self._equalities = tuple(equalities)
        self._prefix = prefix
        used = {*equalities, prefix}
        self._remaining = {
            at: parameter for at, parameter in enumerate(parameters) if at not in used
        }
        self._is_exact = not self._remaining
        self._buckets = Buckets(self._remaining)
        self._prefixes = PrefixIndex()
        #: Members for each literal, at the key's parameters that were asked for.
        self._use_counts: dict[int, Counter[Literal]] = {}
        #: Lookups by the constants at a part of the key.
        self._partial_lookups = LookupTable[_PartialKey]()

    @property
    def has_prefix(self) -> bool:
        return self._prefix is not None

    @property
    def version(self) -> int:
        return self._buckets.version + self._partial_lookups.version

    def add(self, member: Member) -> None:
        literals = member.literals
        self._buckets.add(self._key_for(literals), member)
        if self._prefix is not None:
            self._prefixes.add(cast(bytes, literals[self._prefix]))
        for position, uses in self._use_counts.items():
            literal = literals[position]
            uses[literal] += 1
            if uses[literal] == 1:
                self._redirect_lookups(position, literal)

    def remove(self, member: Member) -> None:
        literals = member.literals
        self._buckets.remove(self._key_for(literals), member)
        if self._prefix is not None:
            self._prefixes.remove(cast(bytes, literals[self._prefix]))
        for position, uses in self._use_counts.items():
            literal = literals[position]
            uses[literal] -= 1
            if not uses[literal]:
                del uses[literal]
                self._redirect_lookups(position, literal)

    def lookup_for(self, constants: Constants) -> Lookup:
        """Return the lookup of the members with these literals.

        It finds more members if constants do not cover the whole key.
        """
        part = tuple([(at, constants[at]) for at in self._equalities if at in constants])
        if any(literal != literal for _, literal in part):
            # NaN equals nothing, but a dict would find it by identity.
            return EMPTY_LOOKUP
        if self._prefix is None and len(part) == len(self._equalities):
            return self._buckets.lookup_for(_make_key([literal for _, literal in part]))
        lookup = self._partial_lookups.get(part)
        if lookup is None:
            read = range(len(self._equalities) + len(self._remaining) + self.has_prefix)
            lookup = self._partial_lookups.create_lookup(
                part, self if self._has_members(part) else None, read
            )
        return lookup

    def match_rows(self, columns: Columns, rows: int, cache: ResultCache = None) -> RowMatches:
        get = self._buckets.by_key.get
        keys = self._row_keys(columns)
        hits = [(row, bucket) for row, key in keys if (bucket := get(key)) is not None]
        if self._is_exact:
            # Without remaining parameters every bucket is a tuple.
            return cast("list[tuple[int, Sequence[Member]]]", hits)
        return self._buckets.match_buckets(hits, columns, rows, cache) if hits else ()

    def _row_keys(self, columns: Columns) -> Iterable[tuple[int, Any]]:
        equal = [columns[position] for position in self._equalities]
        if self._prefix is None:
            return enumerate(equal[0] if len(equal) == 1 else zip(*equal, strict=True))
        beginnings = self._prefixes.find_prefixes(columns[self._prefix])
        if not equal:
            return beginnings
        return [(row, (*(part[row] for part in equal), prefix)) for row, prefix in beginnings]

    def _has_members(self, part: _PartialKey) -> bool:
        return all(literal in self._count_uses(position) for position, literal in part)

    def _count_uses(self, position: int) -> Counter[Literal]:
        uses = self._use_counts.get(position)
        if uses is None:
            uses = self._use_counts[position] = Counter(self._iterate_literals(position))
        return uses

    def _redirect_lookups(self, position: int, literal: Literal) -> None:
        for part, lookup in self._partial_lookups.items():
            if (position, literal) in part:
                self._partial_lookups.redirect(lookup, self if self._has_members(part) else None)

    def _iterate_literals(self, position: int) -> Iterator[Literal]:
        at = self._equalities.index(position)
        single = len(self._equalities) + self.has_prefix == 1
        for key, bucket in self._buckets.by_key.items():
            literal = key if single else cast("tuple[Literal, ...]", key)[at]
            for _ in range(len(bucket) if isinstance(bucket, tuple) else bucket.size):
                yield cast(Literal, literal)

    def _key_for(self, literals: Sequence[Literal]) -> Any:
        parts = [literals[position] for position in self._equalities]
        if self._prefix is not None:
            parts.append(literals[self._prefix])
        return _make_key(parts)


def _make_key(parts: Sequence[Literal]) -> Any:
    return parts[0] if len(parts) == 1 else tuple(parts)
