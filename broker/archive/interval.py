"""Sets of places of one origin, as intervals of marks `(after, upto]`.

Offsets go on through epochs, so intervals that meet are one; a place in a later epoch that was not
used is no hole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeAlias

from broker.event.place import Mark

#: What lies behind `after`, up to and with `upto`.
Interval: TypeAlias = tuple[Mark, Mark]
#: In order, apart from each other, none of them empty.
Intervals: TypeAlias = tuple[Interval, ...]


def union(intervals: Iterable[Interval]) -> Intervals:
    """The union of any intervals."""
    found: list[Interval] = []
    for after, upto in sorted(intervals):
        if upto <= after:
            continue
        if found and after <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], upto))
        else:
            found.append((after, upto))
    return tuple(found)


def difference(intervals: Iterable[Interval], taken: Iterable[Interval]) -> Intervals:
    """What is in `intervals` and not in `taken`."""
    left = list(union(intervals))
    for start, end in union(taken):
        rest: list[Interval] = []
        for after, upto in left:
            rest.append((after, min(upto, start)))
            rest.append((max(after, end), upto))
        left = [each for each in rest if each[0] < each[1]]
    return tuple(left)


def intersection(intervals: Iterable[Interval], others: Iterable[Interval]) -> Intervals:
    """What is in both."""
    first = union(intervals)
    return difference(first, difference(first, others))


def contiguous_end(intervals: Intervals, after: Mark) -> Mark:
    """How far `intervals` go on from `after` without a hole; `after` itself if not at all."""
    for start, end in intervals:
        if start <= after < end:
            return end
    return after


def branch_starts(intervals: Sequence[Interval]) -> tuple[Mark, ...]:
    """The marks behind which they go on as another branch: before the end of the one before."""
    return tuple(after for (_, end), (after, _) in pairwise(intervals) if after[1] < end[1])


def has_branches(intervals: Sequence[Interval]) -> bool:
    """Whether they are of several branches."""
    return bool(branch_starts(intervals))
