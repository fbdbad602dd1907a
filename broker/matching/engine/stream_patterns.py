"""Which subscriptions a stream concerns: patterns by number, and who wants everything.

Patterns are few and streams come again, so what a stream means is worked out once.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from broker.event.stream import StreamPattern
from broker.matching.engine.distinct_query import NO_SOLE_SUBSCRIPTION, DistinctQuery
from broker.matching.index.member import Member

#: Streams that are remembered; a busy node has fewer, an attacker's names push each other out.
MAX_STREAMS = 1024


@attrs.frozen(slots=True, eq=False)
class StreamView:
    """What a stream means: the patterns that match it, and who wants all of it, ascending."""

    patterns: frozenset[int]
    unfiltered: tuple[int, ...]

    def subscriptions_of(self, members: Iterable[Member]) -> tuple[int, ...]:
        """Subscriptions of this stream, ascending: those of members that match, and who wants
        everything."""
        mine = self.patterns
        # A query with alternatives may come more than once.
        found = {*self.unfiltered}
        for member in members:
            if member.sole_pattern in mine:
                found.add(member.sole_number)
            elif member.sole_pattern == NO_SOLE_SUBSCRIPTION:
                found.update(member.entry.select_subscriptions(mine))
        return tuple(sorted(found))

    def merge_subscriptions(
        self, wanted: Iterable[int], entries: Iterable[DistinctQuery]
    ) -> tuple[int, ...]:
        """Subscriptions that were found, and those of further queries that match."""
        mine = self.patterns
        return tuple(
            sorted({*wanted, *(n for entry in entries for n in entry.select_subscriptions(mine))})
        )


class StreamPatterns:
    """Patterns in use, and the subscriptions with the query `true()`, which need no matching."""

    def __init__(self) -> None:
        self._patterns: dict[StreamPattern, int] = {}
        self._by_number: dict[int, StreamPattern] = {}
        self._uses: dict[int, int] = {}
        self._last_number = 0
        self._unfiltered: dict[int, int] = {}
        self._views: dict[str, StreamView] = {}

    def acquire_pattern(self, pattern: StreamPattern) -> int:
        """The number of a pattern, for one more subscription."""
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
        """One subscription less has the pattern."""
        self._uses[number] -= 1
        if not self._uses[number]:
            pattern = self._by_number.pop(number)
            del self._patterns[pattern], self._uses[number]
            self._drop_views(pattern)

    def add_unfiltered(self, subscription: int, pattern: int) -> None:
        """The subscription wants all of its streams."""
        self._unfiltered[subscription] = pattern
        self._drop_views(self._by_number[pattern])

    def remove_unfiltered(self, subscription: int) -> int | None:
        """Forget that it wants everything; its pattern, None if it did not."""
        pattern = self._unfiltered.pop(subscription, None)
        if pattern is not None:
            self._drop_views(self._by_number[pattern])
        return pattern

    def get_pattern(self, number: int) -> StreamPattern:
        """The pattern that has a number."""
        return self._by_number[number]

    def unfiltered_pattern(self, subscription: int) -> int | None:
        """The pattern of a subscription that wants everything, None if it does not."""
        return self._unfiltered.get(subscription)

    def get_view(self, stream: str) -> StreamView:
        """What a stream means now."""
        known = self._views.get(stream)
        if known is None:
            if len(self._views) >= MAX_STREAMS:
                del self._views[next(iter(self._views))]
            patterns = frozenset(n for p, n in self._patterns.items() if p.matches(stream))
            everything = tuple(s for s, p in self._unfiltered.items() if p in patterns)
            known = self._views[stream] = StreamView(patterns, everything)
        return known

    def _drop_views(self, pattern: StreamPattern) -> None:
        for stream in [stream for stream in self._views if pattern.matches(stream)]:
            del self._views[stream]
