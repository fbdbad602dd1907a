"""Loss of the same events at several parents, measured (DCP D99; issue 22, 5.8 and 7.3).

The product of the parents' single losses holds only if nothing fails for several of them. So the
events that all parents of a set have lost are counted, for each set.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Hashable, Iterator
from itertools import combinations
from math import prod
from typing import Final, NamedTuple, TypeAlias

from plugins.dcp.mesh.binomial import (
    lower_share,
    probability_of_at_least,
    probability_of_at_most,
    upper_share,
)

#: Events that the counts are of, by default.
MOST_SAMPLES: Final = 1 << 20
#: The oldest of so many parts of them are forgotten at once.
_PARTS: Final = 16
#: Different entries of one part; an event beyond is not counted. Eight parents that never change
#: have 3^8 at most.
_MOST_ENTRIES: Final = 8_192

ParentSet: TypeAlias = frozenset[Hashable]
_Entry: TypeAlias = tuple[ParentSet, ParentSet]
"""Parents of which it is known whether they brought an event, and those of them that lost it."""


class LossCount(NamedTuple):
    """Events that were lost, of all that were observed."""

    samples: int
    lost: int

    @property
    def share(self) -> float:
        """Without samples 0."""
        return self.lost / self.samples if self.samples else 0.0

    def lower(self, confidence: float) -> float:
        """Return the one-sided lower bound of the loss."""
        return lower_share(self.samples, self.lost, confidence)

    def upper(self, confidence: float) -> float:
        """Return the one-sided upper bound of the loss; without samples 1."""
        return upper_share(self.samples, self.lost, confidence)

    def is_above(self, share: float, confidence: float) -> bool:
        """Return whether the lower bound exceeds a share: cheaper than the bound."""
        if self.lost <= self.samples * share:
            return False
        return probability_of_at_least(self.samples, share, self.lost) < 1 - confidence

    def is_below(self, share: float, confidence: float) -> bool:
        """Return whether the upper bound is below a share: cheaper than the bound."""
        if self.lost >= self.samples * share:
            return False
        return probability_of_at_most(self.samples, share, self.lost) < 1 - confidence


class JointLoss:
    """Counts of the last events by the set of parents that lost them.

    An event is lost at a parent whose chain passed it without it. A later retransmission does not
    count. An event that a parent skipped, or did not select, is not observed there.
    """

    def __init__(self, most_samples: int = MOST_SAMPLES) -> None:
        """The counts are of the last `most_samples` events; a sixteenth of them fewer at times."""
        self._part_size = max(1, most_samples // _PARTS)
        self._parts: deque[Counter[_Entry]] = deque([Counter()], maxlen=_PARTS)
        self._newest_size = 0

    def add(
        self, observed: Collection[Hashable], lost: Collection[Hashable], events: int = 1
    ) -> None:
        """Count events: the parents of which they are known, and those of them that lost them."""
        if self._newest_size >= self._part_size:
            self._parts.append(Counter())
            self._newest_size = 0
        entry, newest = (frozenset(observed), frozenset(lost)), self._parts[-1]
        if entry in newest or len(newest) < _MOST_ENTRIES:
            newest[entry] += events
            self._newest_size += events

    def remove(self, parent: Hashable) -> None:
        """Forget a parent. What is known of the others stays."""
        gone = frozenset({parent})
        parts = [Counter[_Entry]() for _ in self._parts]
        for part, old in zip(parts, self._parts, strict=True):
            for (observed, lost), events in old.items():
                if observed - gone:
                    part[observed - gone, lost - gone] += events
        self._parts = deque(parts, maxlen=_PARTS)
        self._newest_size = parts[-1].total()

    def count(
        self, parents: Collection[Hashable], among: Collection[Hashable] | None = None
    ) -> LossCount:
        """Return how many events all of the parents have lost.

        They are of the events of which it is known for all of `among`; by default, of `parents`.
        """
        losers = frozenset(parents)
        known = losers if among is None else losers | frozenset(among)
        samples = lost_by_all = 0
        for part in self._parts:
            for (observed, lost), events in part.items():
                if known <= observed:
                    samples += events
                    if losers <= lost:
                        lost_by_all += events
        return LossCount(samples, lost_by_all)

    def lost_by_set(self, parents: Collection[Hashable]) -> dict[ParentSet, int]:
        """Return the number of events for each set of these parents that lost them, and no other
        of these parents did. Those that none lost have the empty set."""
        known, found = frozenset(parents), Counter[ParentSet]()
        for part in self._parts:
            for (observed, lost), events in part.items():
                if known <= observed:
                    found[lost & known] += events
        return dict(found)

    def independent_share(self, parents: Collection[Hashable]) -> float:
        """Return the product of the parents' single losses, of events observed at all of them."""
        return prod(self.count([each], parents).share for each in parents)


def sets_of(parents: Collection[Hashable]) -> Iterator[tuple[Hashable, ...]]:
    """Yield all sets of at least two of the parents, small ones first."""
    for size in range(2, len(parents) + 1):
        yield from combinations(parents, size)
