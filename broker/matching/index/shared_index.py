"""Indexes shared by templates that compare alike, so that one look-up serves all (F2, F5)."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from broker.matching.index.lookup import Lookup
from broker.matching.index.member import Columns, Member, ResultCache, RowMatches
from broker.matching.index.parameter import Literal, Parameter
from broker.matching.index.predicate_index import Constants, HashIndex, build_index


@attrs.frozen(cache_hash=True)
class Signature:
    """The comparisons of a conjunction, in canonical order, and the numbers of their paths.

    `paths` separate values that differ in most documents; only speed depends on them.
    """

    parameters: tuple[Parameter, ...]
    paths: tuple[int, ...]


class SharedIndex:
    __slots__ = ("_index", "_full_lookup", "_parameters", "size")

    def __init__(self, signature: Signature) -> None:
        self._parameters = signature.parameters
        self._index = build_index(signature.parameters)
        self.size = 0
        #: For constants that do not reduce the members.
        self._full_lookup = Lookup(self._index, range(len(signature.parameters)))

    @property
    def version(self) -> int:
        return self._index.version if isinstance(self._index, HashIndex) else 0

    def add(self, literals: tuple[Literal, ...], member: Member) -> Member:
        """Add a template's member; return its posting, whose `entry` is the member."""
        posting = Member(literals, entry=member, owner=member.owner)
        self.size += 1
        if self._is_satisfiable(literals):
            self._index.add(posting)
        return posting

    def remove(self, posting: Member) -> None:
        self.size -= 1
        if self._is_satisfiable(posting.literals):
            self._index.remove(posting)

    def lookup_for(self, constants: Constants) -> Lookup:
        """Return the lookup for these constants. The caller must keep a reference to it."""
        access = self._index
        return access.lookup_for(constants) if isinstance(access, HashIndex) else self._full_lookup

    def match_rows(self, columns: Columns, rows: int, cache: ResultCache = None) -> RowMatches:
        return self._index.match_rows(columns, rows, cache)

    def _is_satisfiable(self, literals: Sequence[Literal]) -> bool:
        """True if any value matches the literals. So hashes never contain NaN."""
        pairs = zip(self._parameters, literals, strict=True)
        return not any(parameter.is_unsatisfiable(literal) for parameter, literal in pairs)


class IndexPool:
    def __init__(self) -> None:
        self._indexes: dict[Signature, SharedIndex] = {}

    def get_index(self, signature: Signature) -> SharedIndex:
        known = self._indexes.get(signature)
        if known is None:
            known = self._indexes[signature] = SharedIndex(signature)
        return known

    def release_index(self, signature: Signature) -> None:
        known = self._indexes.get(signature)
        if known is not None and not known.size:
            del self._indexes[signature]
