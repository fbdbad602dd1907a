"""Indexes that templates share: those that compare alike are looked up once for all (F2, F5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from broker.matching.index.lookup import Lookup
from broker.matching.index.member import Member
from broker.matching.index.parameter import Literal, Parameter
from broker.matching.index.predicate_index import Constants, HashIndex, build_index
from broker.matching.index.row_matcher import RowMatches


@attrs.frozen(cache_hash=True)
class Signature:
    """What a conjunction compares: its parameters in a canonical order, and the paths they belong to.

    `paths` are numbers that tell apart what are different values in most documents. Nothing but
    time depends on them: members of several meanings may be in one index, and who asks knows which
    templates he means.
    """

    parameters: tuple[Parameter, ...]
    paths: tuple[int, ...]


class SharedIndex:
    """Members of several templates, each for the literals that it has at the signature's parameters."""

    __slots__ = ("_index", "_full_lookup", "_parameters", "size")

    def __init__(self, signature: Signature) -> None:
        self._parameters = signature.parameters
        self._index = build_index(signature.parameters)
        self.size = 0
        #: Where constants lead to no fewer members.
        self._full_lookup = Lookup(self._index, range(len(signature.parameters)))

    @property
    def version(self) -> int:
        """Rises when a lookup of `among` leads elsewhere."""
        return self._index.version if isinstance(self._index, HashIndex) else 0

    def add(self, literals: tuple[Literal, ...], member: Member) -> Member:
        """What stands for a template's member here: its `entry` is the member, its owner theirs."""
        posting = Member(literals, entry=member, owner=member.owner)
        self.size += 1
        if self._is_satisfiable(literals):
            self._index.add(posting)
        return posting

    def remove(self, posting: Member) -> None:
        """Forget what `add` gave."""
        self.size -= 1
        if self._is_satisfiable(posting.literals):
            self._index.remove(posting)

    def lookup_for(self, constants: Constants) -> Lookup:
        """The lookup to the members that documents with these constants satisfy.

        It is the same for all who ask for the same constants, and has to be kept by them.
        """
        access = self._index
        return access.lookup_for(constants) if isinstance(access, HashIndex) else self._full_lookup

    def match_rows(
        self,
        columns: Sequence[Sequence[Any]],
        rows: int,
        cache: dict[Any, Any] | None = None,
    ) -> RowMatches:
        """See `RowMatcher`."""
        return self._index.match_rows(columns, rows, cache)

    def _is_satisfiable(self, literals: Sequence[Literal]) -> bool:
        """Whether any value satisfies the literals. Hashes must not have NaN, and need not."""
        pairs = zip(self._parameters, literals, strict=True)
        return not any(parameter.is_unsatisfiable(literal) for parameter, literal in pairs)


class IndexPool:
    """The indexes by signature, as long as they have members."""

    def __init__(self) -> None:
        self._indexes: dict[Signature, SharedIndex] = {}

    def get_index(self, signature: Signature) -> SharedIndex:
        """The index of a signature, new if there is none."""
        known = self._indexes.get(signature)
        if known is None:
            known = self._indexes[signature] = SharedIndex(signature)
        return known

    def release_index(self, signature: Signature) -> None:
        """Forget an index that nobody has members in any more."""
        known = self._indexes.get(signature)
        if known is not None and not known.size:
            del self._indexes[signature]
