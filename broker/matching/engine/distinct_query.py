"""A distinct query with its subscriptions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from copy import copy
from typing import cast

from broker.matching.engine.query_family import QueryFamily
from broker.matching.index.member import Member
from broker.matching.index.shrinking_dict import ShrinkingDict
from broker.matching.query.hoisting import hoist_invariant_calls
from broker.matching.query.query import Query
from broker.matching.xpath_evaluation import query_inputs

#: Replaces the pattern of a member's only subscription where it has several.
NO_SOLE_SUBSCRIPTION = 0


class DistinctQuery:
    """Queries with equal meaning.

    It matches if one of its `members` does; each is in the family at the same place of `families`.
    `pattern_by_subscription` has the number of the stream pattern by subscription, ascending.
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
        #: The text that lxml compiles (often the same object as `text`), and calls to evaluate
        #: before it. See `HoistedQuery`.
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
        return tuple(self.pattern_by_subscription)

    def add_subscription(self, number: int, pattern: int) -> None:
        """Add a subscription with the highest number so far."""
        self.pattern_by_subscription[number] = pattern
        self._clear_cache()

    def pattern_of(self, number: int) -> int:
        return self.pattern_by_subscription[number]

    def remove_subscription(self, number: int) -> int:
        pattern = self.pattern_by_subscription[number]
        del self.pattern_by_subscription[number]
        self._clear_cache()
        return pattern

    def split_off(self, subscriptions: Iterable[int]) -> DistinctQuery:
        """Move subscriptions to a suspended copy, which no index has."""
        split = copy(self)
        split.pattern_by_subscription = ShrinkingDict[int, int]()
        split.is_suspended = True
        split._patterns = None
        for number in subscriptions:
            split.pattern_by_subscription[number] = self.remove_subscription(number)
        return split

    def select_subscriptions(self, patterns: frozenset[int]) -> tuple[int, ...]:
        """Return the subscriptions with one of these patterns, ascending; the last result is
        stored."""
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


def _cache_sole_subscription(member: Member, query: DistinctQuery) -> None:
    """Store a member's only subscription in it, so that matching need not read the query."""
    member.sole_number, member.sole_pattern = 0, NO_SOLE_SUBSCRIPTION
    if len(query.pattern_by_subscription) == 1:
        [(member.sole_number, member.sole_pattern)] = query.pattern_by_subscription.items()


def _hoist_calls(query: Query) -> tuple[str, tuple[str, ...]]:
    if query.compilable != query.text:
        return query.compilable, ()
    hoisted = hoist_invariant_calls(query.text, query.expression)
    return hoisted.text, hoisted.calls


class QueriesOfMember:
    """The queries of a member that is an alternative of several, possibly very many."""

    __slots__ = ("by_members",)

    def __init__(self, *queries: DistinctQuery) -> None:
        self.by_members = {query.members: query for query in queries}

    def select_subscriptions(self, patterns: frozenset[int]) -> list[int]:
        queries = self.by_members.values()
        return [number for query in queries for number in query.select_subscriptions(patterns)]


def queries_of(member: Member) -> Collection[DistinctQuery]:
    found = member.entry
    if found is None:
        return ()
    return (
        found.by_members.values()
        if isinstance(found, QueriesOfMember)
        else (cast(DistinctQuery, found),)
    )


def find_query(members: tuple[Member, ...]) -> DistinctQuery | None:
    found = members[0].entry
    if isinstance(found, QueriesOfMember):
        return found.by_members.get(members)
    return found if found is not None and found.members == members else None


def attach_query(member: Member, query: DistinctQuery) -> None:
    known = member.entry
    if isinstance(known, QueriesOfMember):
        known.by_members[query.members] = query
    elif known is None:
        member.entry = query
        _cache_sole_subscription(member, query)
    else:
        member.entry = QueriesOfMember(known, query)
        member.sole_number, member.sole_pattern = 0, NO_SOLE_SUBSCRIPTION


def detach_query(member: Member, query: DistinctQuery) -> bool:
    """Remove a query from a member; return True if the member has no other."""
    known = member.entry
    if not isinstance(known, QueriesOfMember):
        member.entry = None
        return True
    del known.by_members[query.members]
    if len(known.by_members) == 1:
        [remaining] = known.by_members.values()
        member.entry = remaining
        _cache_sole_subscription(member, remaining)
    return False


def iterate_queries(members: Iterable[Member]) -> Iterator[DistinctQuery]:
    """Yield the queries of several members, one with two of them twice."""
    for member in members:
        yield from queries_of(member)
