"""A query with its subscriptions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import cast

from broker.matching.evaluation import reading_of
from broker.matching.index.member import Member
from broker.matching.index.shrinking_dict import ShrinkingDict
from broker.matching.query.hoisting import hoist_invariant_calls
from broker.matching.query.query import Query
from broker.matching.switching.family import Family

#: In place of the pattern of a member's only subscription, where it is not the only one.
SEVERAL = 0


class Entry:
    """One distinct query: what it means, not how it is written, is distinct.

    It matches when one of its `members` does, each a family's. `pairs` has its subscriptions, each
    with the pattern of its streams (see `streams.py`), both by number, ascending.
    """

    __slots__ = (
        "_brought",
        "_patterns",
        "calls",
        "compilable",
        "families",
        "members",
        "namespaces",
        "pairs",
        "reading",
        "suspended",
        "text",
    )

    def __init__(
        self, query: Query, families: tuple[Family, ...], members: tuple[Member, ...]
    ) -> None:
        self.text = query.text
        self.namespaces = query.namespaces
        #: What lxml compiles, the same object as the text in most queries, and calls to be made
        #: before: see `HoistedQuery`.
        self.compilable, self.calls = _compilable(query)
        self.reading = reading_of(query)
        self.families = families
        self.members = members
        self.pairs = ShrinkingDict[int, int]()
        self.suspended = False
        self._patterns: frozenset[int] | None = None
        self._brought: tuple[int, ...] = ()

    @property
    def numbers(self) -> tuple[int, ...]:
        """The subscriptions, ascending."""
        return tuple(self.pairs)

    def add(self, number: int, pattern: int) -> None:
        """Take in a subscription, the newest of all."""
        self.pairs[number] = pattern
        self._changed()

    def pattern(self, number: int) -> int:
        """The pattern of a subscription."""
        return self.pairs[number]

    def remove(self, number: int) -> int:
        """Forget a subscription; its pattern."""
        pattern = self.pairs[number]
        del self.pairs[number]
        self._changed()
        return pattern

    def brought(self, patterns: frozenset[int]) -> tuple[int, ...]:
        """The subscriptions with one of these patterns, ascending; remembered until others come."""
        if self._patterns is not patterns:
            self._patterns = patterns
            self._brought = tuple([n for n, each in self.pairs.items() if each in patterns])
        return self._brought

    def _changed(self) -> None:
        self._patterns = None
        for member in self.members:
            if member.entry is self:
                _tell(member, self)


def _tell(member: Member, entry: Entry) -> None:
    """Let a member know the subscription, and its pattern, of the only query that it stands for.

    Most queries have one alone: so it is found without a look at the query.
    """
    member.sole_number, member.sole_pattern = 0, SEVERAL
    if len(entry.pairs) == 1:
        [(member.sole_number, member.sole_pattern)] = entry.pairs.items()


def _compilable(query: Query) -> tuple[str, tuple[str, ...]]:
    if query.compilable != query.text:
        return query.compilable, ()
    found = hoist_invariant_calls(query.text, query.expression)
    return found.text, found.calls


class Several:
    """What a member stands for that is an alternative of several queries, maybe of very many."""

    __slots__ = ("by_members",)

    def __init__(self, *entries: Entry) -> None:
        self.by_members = {entry.members: entry for entry in entries}

    def brought(self, patterns: frozenset[int]) -> list[int]:
        """The subscriptions of all of them that have one of these patterns."""
        entries = self.by_members.values()
        return [number for entry in entries for number in entry.brought(patterns)]


def entries_of(member: Member) -> Collection[Entry]:
    """The queries that a member is an alternative of; mostly one."""
    found = member.entry
    if found is None:
        return ()
    return found.by_members.values() if isinstance(found, Several) else (cast(Entry, found),)


def entry_of(members: tuple[Member, ...]) -> Entry | None:
    """The query with exactly these alternatives, if there is one."""
    found = members[0].entry
    if isinstance(found, Several):
        return found.by_members.get(members)
    return found if found is not None and found.members == members else None


def attach(member: Member, entry: Entry) -> None:
    """Make a query known to one of its members."""
    known = member.entry
    if isinstance(known, Several):
        known.by_members[entry.members] = entry
    elif known is None:
        member.entry = entry
        _tell(member, entry)
    else:
        member.entry = Several(known, entry)
        member.sole_number, member.sole_pattern = 0, SEVERAL


def detach(member: Member, entry: Entry) -> bool:
    """Make a member forget a query; whether it has none left."""
    known = member.entry
    if not isinstance(known, Several):
        member.entry = None
        return True
    del known.by_members[entry.members]
    if len(known.by_members) == 1:
        [left] = known.by_members.values()
        member.entry = left
        _tell(member, left)
    return False


def entries(members: Iterable[Member]) -> Iterator[Entry]:
    """The queries of several members; one that is an alternative of two comes twice."""
    for member in members:
        yield from entries_of(member)
