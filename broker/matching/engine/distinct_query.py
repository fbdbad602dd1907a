"""A query with its subscriptions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import cast

from broker.matching.engine.query_family import QueryFamily
from broker.matching.index.member import Member
from broker.matching.index.shrinking_dict import ShrinkingDict
from broker.matching.query.hoisting import hoist_invariant_calls
from broker.matching.query.query import Query
from broker.matching.xpath_evaluation import query_inputs

#: In place of the pattern of a member's only subscription, where it is not the only one.
NO_SOLE_SUBSCRIPTION = 0


class DistinctQuery:
    """One distinct query: what it means, not how it is written, is distinct.

    It matches when one of its `members` does, each a family's. `pairs` has its subscriptions, each
    with the pattern of its streams (see `streams.py`), both by number, ascending.
    """

    __slots__ = (
        "_selected",
        "_patterns",
        "calls",
        "compilable",
        "families",
        "members",
        "namespaces",
        "pattern_by_subscription",
        "inputs",
        "is_suspended",
        "text",
    )

    def __init__(
        self, query: Query, families: tuple[QueryFamily, ...], members: tuple[Member, ...]
    ) -> None:
        self.text = query.text
        self.namespaces = query.namespaces
        #: What lxml compiles, the same object as the text in most queries, and calls to be made
        #: before: see `HoistedQuery`.
        self.compilable, self.calls = _hoist_calls(query)
        self.inputs = query_inputs(query)
        self.families = families
        self.members = members
        self.pattern_by_subscription = ShrinkingDict[int, int]()
        self.is_suspended = False
        self._patterns: frozenset[int] | None = None
        self._selected: tuple[int, ...] = ()

    @property
    def subscriptions(self) -> tuple[int, ...]:
        """The subscriptions, ascending."""
        return tuple(self.pattern_by_subscription)

    def add_subscription(self, number: int, pattern: int) -> None:
        """Take in a subscription, the newest of all."""
        self.pattern_by_subscription[number] = pattern
        self._clear_cache()

    def pattern_of(self, number: int) -> int:
        """The pattern of a subscription."""
        return self.pattern_by_subscription[number]

    def remove_subscription(self, number: int) -> int:
        """Forget a subscription; its pattern."""
        pattern = self.pattern_by_subscription[number]
        del self.pattern_by_subscription[number]
        self._clear_cache()
        return pattern

    def select_subscriptions(self, patterns: frozenset[int]) -> tuple[int, ...]:
        """The subscriptions with one of these patterns, ascending; remembered until others come."""
        if self._patterns is not patterns:
            self._patterns = patterns
            self._selected = tuple(
                [n for n, each in self.pattern_by_subscription.items() if each in patterns]
            )
        return self._selected

    def _clear_cache(self) -> None:
        self._patterns = None
        for member in self.members:
            if member.entry is self:
                _cache_sole_subscription(member, self)


def _cache_sole_subscription(member: Member, entry: DistinctQuery) -> None:
    """Let a member know the subscription, and its pattern, of the only query that it stands for.

    Most queries have one alone: so it is found without a look at the query.
    """
    member.sole_number, member.sole_pattern = 0, NO_SOLE_SUBSCRIPTION
    if len(entry.pattern_by_subscription) == 1:
        [(member.sole_number, member.sole_pattern)] = entry.pattern_by_subscription.items()


def _hoist_calls(query: Query) -> tuple[str, tuple[str, ...]]:
    if query.compilable != query.text:
        return query.compilable, ()
    found = hoist_invariant_calls(query.text, query.expression)
    return found.text, found.calls


class QueriesOfMember:
    """What a member stands for that is an alternative of several queries, maybe of very many."""

    __slots__ = ("by_members",)

    def __init__(self, *entries: DistinctQuery) -> None:
        self.by_members = {entry.members: entry for entry in entries}

    def select_subscriptions(self, patterns: frozenset[int]) -> list[int]:
        """The subscriptions of all of them that have one of these patterns."""
        entries = self.by_members.values()
        return [number for entry in entries for number in entry.select_subscriptions(patterns)]


def queries_of(member: Member) -> Collection[DistinctQuery]:
    """The queries that a member is an alternative of; mostly one."""
    found = member.entry
    if found is None:
        return ()
    return (
        found.by_members.values()
        if isinstance(found, QueriesOfMember)
        else (cast(DistinctQuery, found),)
    )


def find_query(members: tuple[Member, ...]) -> DistinctQuery | None:
    """The query with exactly these alternatives, if there is one."""
    found = members[0].entry
    if isinstance(found, QueriesOfMember):
        return found.by_members.get(members)
    return found if found is not None and found.members == members else None


def attach_query(member: Member, entry: DistinctQuery) -> None:
    """Make a query known to one of its members."""
    known = member.entry
    if isinstance(known, QueriesOfMember):
        known.by_members[entry.members] = entry
    elif known is None:
        member.entry = entry
        _cache_sole_subscription(member, entry)
    else:
        member.entry = QueriesOfMember(known, entry)
        member.sole_number, member.sole_pattern = 0, NO_SOLE_SUBSCRIPTION


def detach_query(member: Member, entry: DistinctQuery) -> bool:
    """Make a member forget a query; whether it has none left."""
    known = member.entry
    if not isinstance(known, QueriesOfMember):
        member.entry = None
        return True
    del known.by_members[entry.members]
    if len(known.by_members) == 1:
        [left] = known.by_members.values()
        member.entry = left
        _cache_sole_subscription(member, left)
    return False


def iterate_queries(members: Iterable[Member]) -> Iterator[DistinctQuery]:
    """The queries of several members; one that is an alternative of two comes twice."""
    for member in members:
        yield from queries_of(member)
