"""Subscriptions by stream: numbered patterns, and subscriptions without a filter."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import attrs

from broker.event.envelope import HIGHEST_RANK, Header
from broker.event.stream import StreamPattern
from broker.matching.engine.distinct_query import NO_SOLE_SUBSCRIPTION, DistinctQuery
from broker.matching.index.member import Member
from broker.matching.readable_streams import ReadableStreams

#: Streams, by security level, with a stored view. A busy node has fewer; an attacker's stream names
#: replace each other.
MAX_STREAMS = 1024


@attrs.frozen(slots=True, eq=False)
class StreamView:
    """The patterns that match a stream at a security level, and its subscriptions without a filter,
    ascending."""

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
    """Readable streams in use, and the subscriptions with the query `true()`, which are not
    matched.

    A subscription reads the streams of a pattern up to its clearance. A query is evaluated for
    nobody who may not read the event, so that its time and its suspension reveal nothing.
    """

    def __init__(self) -> None:
        self._patterns: dict[ReadableStreams, int] = {}
        self._by_number: dict[int, ReadableStreams] = {}
        self._uses: dict[int, int] = {}
        self._last_number = 0
        self._unfiltered: dict[int, int] = {}
        self._views: dict[tuple[str, int], StreamView] = {}

    def acquire_pattern(self, pattern: StreamPattern, clearance: int = HIGHEST_RANK) -> int:
        """`clearance` is a rank."""
        readable = ReadableStreams(pattern, clearance)
        number = self._patterns.get(readable)
        if number is None:
            self._last_number += 1
            number = self._patterns[readable] = self._last_number
            self._by_number[number] = readable
            self._uses[number] = 0
            self._drop_views(pattern)
        self._uses[number] += 1
        return number

    def release_pattern(self, number: int) -> None:
        self._uses[number] -= 1
        if not self._uses[number]:
            readable = self._by_number.pop(number)
            del self._patterns[readable], self._uses[number]
            self._drop_views(readable.pattern)

    def add_unfiltered(self, subscription: int, pattern: int) -> None:
        self._unfiltered[subscription] = pattern
        self._drop_views(self._by_number[pattern].pattern)

    def remove_unfiltered(self, subscription: int) -> int | None:
        """Remove a subscription; return its pattern, None if it has a filter."""
        pattern = self._unfiltered.pop(subscription, None)
        if pattern is not None:
            self._drop_views(self._by_number[pattern].pattern)
        return pattern

    def get_readable(self, number: int) -> ReadableStreams:
        return self._by_number[number]

    def unfiltered_pattern(self, subscription: int) -> int | None:
        return self._unfiltered.get(subscription)

    def get_view(self, stream: str, rank: int) -> StreamView:
        """Return the view for events of a security level."""
        known = self._views.get((stream, rank))
        if known is None:
            if len(self._views) >= MAX_STREAMS:
                del self._views[next(iter(self._views))]
            patterns = frozenset(n for r, n in self._patterns.items() if r.include(stream, rank))
            unfiltered = tuple(s for s, p in self._unfiltered.items() if p in patterns)
            known = self._views[stream, rank] = StreamView(patterns, unfiltered)
        return known

    def view_for(self, header: Header) -> StreamView:
        return self.get_view(header.stream, header.security_level.rank)

    def _drop_views(self, pattern: StreamPattern) -> None:
        for view in [view for view in self._views if pattern.matches(view[0])]:
            del self._views[view]
