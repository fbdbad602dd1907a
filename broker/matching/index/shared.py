"""Indexes that templates share: those that compare alike are looked up once for all (F2, F5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from broker.matching.index.access import ByKey, Constants, access_path
from broker.matching.index.finder import Found
from broker.matching.index.holes import Hole, Literal
from broker.matching.index.member import Member
from broker.matching.index.way import Way


@attrs.frozen(cache_hash=True)
class Signature:
    """What a conjunction compares: its holes in a canonical order, and the paths they belong to.

    `paths` are numbers that tell apart what are different values in most documents. Nothing but
    time depends on them: members of several meanings may be in one index, and who asks knows which
    templates he means.
    """

    holes: tuple[Hole, ...]
    paths: tuple[int, ...]


class SharedIndex:
    """Members of several templates, each for the literals that it has at the signature's holes."""

    __slots__ = ("_access", "_everywhere", "_holes", "size")

    def __init__(self, signature: Signature) -> None:
        self._holes = signature.holes
        self._access = access_path(signature.holes)
        self.size = 0
        #: Where constants lead to no fewer members.
        self._everywhere = Way(self._access, range(len(signature.holes)))

    @property
    def changes(self) -> int:
        """Rises when a way of `among` leads elsewhere."""
        return self._access.changes if isinstance(self._access, ByKey) else 0

    def add(self, literals: tuple[Literal, ...], member: Member) -> Member:
        """What stands for a template's member here: its `entry` is the member, its owner theirs."""
        posting = Member(literals, entry=member, owner=member.owner)
        self.size += 1
        if self._reachable(literals):
            self._access.add(posting)
        return posting

    def remove(self, posting: Member) -> None:
        """Forget what `add` gave."""
        self.size -= 1
        if self._reachable(posting.literals):
            self._access.remove(posting)

    def among(self, constants: Constants) -> Way:
        """The way to the members that documents with these constants satisfy.

        It is the same for all who ask for the same constants, and has to be kept by them.
        """
        access = self._access
        return access.among(constants) if isinstance(access, ByKey) else self._everywhere

    def find_rows(
        self,
        columns: Sequence[Sequence[Any]],
        rows: int,
        known: dict[Any, Any] | None = None,
    ) -> Found:
        """See `Finder`."""
        return self._access.find_rows(columns, rows, known)

    def _reachable(self, literals: Sequence[Literal]) -> bool:
        """Whether any value satisfies the literals. Hashes must not have NaN, and need not."""
        pairs = zip(self._holes, literals, strict=True)
        return not any(hole.never(literal) for hole, literal in pairs)


class Pool:
    """The indexes by signature, as long as they have members."""

    def __init__(self) -> None:
        self._indexes: dict[Signature, SharedIndex] = {}

    def index(self, signature: Signature) -> SharedIndex:
        """The index of a signature, new if there is none."""
        known = self._indexes.get(signature)
        if known is None:
            known = self._indexes[signature] = SharedIndex(signature)
        return known

    def release(self, signature: Signature) -> None:
        """Forget an index that nobody has members in any more."""
        known = self._indexes.get(signature)
        if known is not None and not known.size:
            del self._indexes[signature]
