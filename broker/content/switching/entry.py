"""A query with its subscriptions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import cast

from broker.content.index.member import Member
from broker.content.switching.family import Family


class Entry:
    """One distinct query: what it means, not how it is written, is distinct.

    It matches when one of its `members` does, each a family's. `pairs` has its subscriptions, each
    with the pattern of its streams (see `streams.py`), both by number.
    """

    __slots__ = ("families", "members", "namespaces", "pairs", "suspended", "text")

    def __init__(
        self,
        text: str,
        namespaces: tuple[tuple[str, str], ...],
        families: tuple[Family, ...],
        members: tuple[Member, ...],
    ) -> None:
        self.text = text
        self.namespaces = namespaces
        self.families = families
        self.members = members
        self.pairs: tuple[tuple[int, int], ...] = ()
        self.suspended = False

    @property
    def numbers(self) -> tuple[int, ...]:
        """The subscriptions, ascending."""
        return tuple(number for number, _ in self.pairs)

    def add(self, number: int, pattern: int) -> None:
        """Take in a subscription."""
        self.pairs += ((number, pattern),)

    def pattern(self, number: int) -> int:
        """The pattern of a subscription."""
        return next(pattern for each, pattern in self.pairs if each == number)

    def remove(self, number: int) -> int:
        """Forget a subscription; its pattern."""
        pattern = self.pattern(number)
        self.pairs = tuple(pair for pair in self.pairs if pair[0] != number)
        return pattern


class Several:
    """What a member stands for that is an alternative of several queries, maybe of very many."""

    __slots__ = ("by_members",)

    def __init__(self, *entries: Entry) -> None:
        self.by_members = {entry.members: entry for entry in entries}

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The subscriptions of all of them."""
        return tuple(pair for entry in self.by_members.values() for pair in entry.pairs)


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
    else:
        member.entry = entry if known is None else Several(known, entry)


def detach(member: Member, entry: Entry) -> bool:
    """Make a member forget a query; whether it has none left."""
    known = member.entry
    if not isinstance(known, Several):
        member.entry = None
        return True
    del known.by_members[entry.members]
    if len(known.by_members) == 1:
        [member.entry] = known.by_members.values()
    return False


def entries(members: Iterable[Member]) -> Iterator[Entry]:
    """The queries of several members; one that is an alternative of two comes twice."""
    for member in members:
        yield from entries_of(member)
