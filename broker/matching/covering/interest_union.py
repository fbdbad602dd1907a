"""Union of the interest of a node's links, as announced to other nodes (D12, F8, T9, A19)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import attrs

from broker.event.stream import StreamPattern
from broker.matching.covering.cover_forest import CoverForest
from broker.matching.covering.stream_interest import StreamInterest
from broker.matching.covering.widening import widen_interests
from broker.matching.query.query import Query

#: Announced queries. More are widened.
MAX_QUERIES = 1000


@attrs.frozen(slots=True)
class InterestDelta:
    """A change of the announced interest. Apply `announce` before `withdraw` to miss nothing."""

    announce: tuple[StreamInterest, ...] = ()
    withdraw: tuple[StreamInterest, ...] = ()


class InterestUnion:
    """Interests by key, and the fewest queries that cover them.

    More than `max_queries` are widened (`widening.py`), never narrowed. The result depends on the
    present interests only, not on their history (A19). Memory is about 8 kB for each distinct
    query.
    """

    def __init__(self, max_queries: int = MAX_QUERIES) -> None:
        if max_queries < 1:
            raise ValueError("max_queries must be 1 or more")
        self._max_queries = max_queries
        self._by_key: dict[Hashable, StreamInterest] = {}
        self._use_counts: dict[StreamInterest, int] = {}
        self._forest = CoverForest()
        self._widened: frozenset[StreamInterest] | None = None
        self._seed: frozenset[StreamInterest] = frozenset()

    @property
    def announced(self) -> frozenset[StreamInterest]:
        return frozenset(self._forest.roots) if self._widened is None else self._widened

    def add(self, key: Hashable, pattern: StreamPattern, query: Query) -> InterestDelta:
        """Add an interest under a key. Raises `ValueError` if the key is in use."""
        if key in self._by_key:
            raise ValueError(f"the key {key!r} is in use already")
        interest = self._by_key[key] = StreamInterest(pattern, query)
        self._use_counts[interest] = self._use_counts.get(interest, 0) + 1
        if self._use_counts[interest] > 1:
            return InterestDelta()
        self._forest.add(interest)
        return self._compute_delta()

    def remove(self, key: Hashable) -> InterestDelta:
        """Remove the interest of a key. Raises `KeyError`."""
        interest = self._by_key.pop(key)
        self._use_counts[interest] -= 1
        if self._use_counts[interest]:
            return InterestDelta()
        del self._use_counts[interest]
        self._forest.remove(interest)
        return self._compute_delta()

    def keys_by_announced(self) -> Iterator[tuple[StreamInterest, list[Hashable]]]:
        """Yield each announced interest with the keys of those that it covers.

        Each key is below one of them. Widened interests are left out.
        """
        if self._widened is not None:
            return
        keys: dict[StreamInterest, list[Hashable]] = {}
        for key, interest in self._by_key.items():
            keys.setdefault(interest, []).append(key)
        for interest, root in self._forest.roots.items():
            yield interest, [key for node in root.subtree() for key in keys[node.interest]]

    def _compute_delta(self) -> InterestDelta:
        appeared, gone = self._forest.take_changes()
        if self._widened is None and len(self._forest.roots) <= self._max_queries:
            return _sort_delta(appeared, gone)
        if self._widened is None:
            before = frozenset(self._forest.roots) - appeared | gone
        else:
            before = self._widened
        self._widened = self._widen()
        after = self.announced
        return _sort_delta(after - before, before - after)

    def _widen(self) -> frozenset[StreamInterest] | None:
        roots = self._forest.roots
        if len(roots) <= self._max_queries:
            return None
        fewer = widen_interests(
            {interest: node.form for interest, node in roots.items()}, self._max_queries
        )
        if self._widened is not None and fewer == self._seed:
            return self._widened
        self._seed = fewer
        # Widened queries may cover others and each other.
        return frozenset(CoverForest(sorted(fewer, key=lambda interest: interest.rank)).roots)


def _sort_delta(
    announce: frozenset[StreamInterest], withdraw: frozenset[StreamInterest]
) -> InterestDelta:
    return InterestDelta(
        tuple(sorted(announce, key=lambda interest: interest.rank)),
        tuple(sorted(withdraw, key=lambda interest: interest.rank)),
    )
