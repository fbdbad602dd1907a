"""Subscriptions by stream: numbered patterns, and subscriptions without a filter."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import attrs

from broker.event.stream import StreamPattern
from broker.matching.engine.distinct_query import NO_SOLE_SUBSCRIPTION, DistinctQuery
from broker.matching.index.member import Member

#: Streams with a stored view. A busy node has fewer; an attacker's stream names replace each other.
MAX_STREAMS = 1024


@attrs.frozen(slots=True, eq=False)
class StreamView:
    """The patterns that match a stream, and its subscriptions without a filter, ascending."""

    patterns: frozenset[int]
    unfiltered: tuple[int, ...]
    _patterns_or_several: frozenset[int] = attrs.field(init=False)

    @_patterns_or_several.default
    def _add_several(self) -> frozenset[int]:
        return self.patterns | {NO_SOLE_SUBSCRIPTION}

    def subscriptions_of(self, members: Collection[Member]) -> tuple[int, ...]:
        """Return the subscriptions of matching members, and the unfiltered, ascending."""
        patterns = self._patterns_or_several
        # A set, since a query with several alternatives may occur twice.
        found = {member.sole_number for member in members if member.sole_pattern in patterns}
        if 0 in found:
            found.remove(0)
            for member in members:
                if member.sole_pattern == NO_SOLE_SUBSCRIPTION:
                    found.update(member.entry.select_subscriptions(self.patterns))
        if self.unfiltered:
            found.update(self.unfiltered)
        return tuple(sorted(found))

    def merge_subscriptions(
        self, subscriptions: Iterable[int], queries: Iterable[DistinctQuery]
    ) -> tuple[int, ...]:
        patterns = self.patterns
        return tuple(
            sorted(
                {
                    *subscriptions,
                    *(n for query in queries for n in query.select_subscriptions(patterns)),
                }
            )
        )


class StreamPatterns:
    """Patterns in use, and the subscriptions with the query `true()`, which are not matched."""

    def __init__(self) -> None:
        self._patterns: dict[StreamPattern, int] = {}
        self._by_number: dict[int, StreamPattern] = {}
        self._uses: dict[int, int] = {}
        self._last_number = 0
        self._unfiltered: dict[int, int] = {}
        self._views: dict[str, StreamView] = {}

    def acquire_pattern(self, pattern: StreamPattern) -> int:
        number = self._patterns.get(pattern)
        if number is None:
            self._last_number += 1
            number = self._patterns[pattern] = self._last_number
            self._by_number[number] = pattern
            self._uses[number] = 0
            self._drop_views(pattern)
        self._uses[number] += 1
        return number

    def release_pattern(self, number: int) -> None:
        self._uses[number] -= 1
        if not self._uses[number]:
            pattern = self._by_number.pop(number)
            del self._patterns[pattern], self._uses[number]
            self._drop_views(pattern)

    def add_unfiltered(self, subscription: int, pattern: int) -> None:
        self._unfiltered[subscription] = pattern
        self._drop_views(self._by_number[pattern])

    def remove_unfiltered(self, subscription: int) -> int | None:
        """Remove a subscription; return its pattern, None if it has a filter."""
        pattern = self._unfiltered.pop(subscription, None)
        if pattern is not None:
            self._drop_views(self._by_number[pattern])
        return pattern

    def get_pattern(self, number: int) -> StreamPattern:
        return self._by_number[number]

    def unfiltered_pattern(self, subscription: int) -> int | None:
        return self._unfiltered.get(subscription)

    def get_view(self, stream: str) -> StreamView:
        known = self._views.get(stream)
        if known is None:
            if len(self._views) >= MAX_STREAMS:
                del self._views[next(iter(self._views))]
            patterns = frozenset(n for p, n in self._patterns.items() if p.matches(stream))
            unfiltered = tuple(s for s, p in self._unfiltered.items() if p in patterns)
            known = self._views[stream] = StreamView(patterns, unfiltered)
        return known

    def _drop_views(self, pattern: StreamPattern) -> None:
        for stream in [stream for stream in self._views if pattern.matches(stream)]:
            del self._views[stream]
