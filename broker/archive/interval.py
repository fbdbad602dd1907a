"""Sets of places of one origin, as intervals of marks `(after, upto]`.

Offsets continue through epochs, so adjacent intervals join.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeAlias

from broker.event.place import Mark

Interval: TypeAlias = tuple[Mark, Mark]
#: Sorted, disjoint, not empty.
Intervals: TypeAlias = tuple[Interval, ...]


def union(intervals: Iterable[Interval]) -> Intervals:
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
    left = list(union(intervals))
    for start, end in union(taken):
        rest: list[Interval] = []
        for after, upto in left:
            rest.append((after, min(upto, start)))
            rest.append((max(after, end), upto))
        left = [each for each in rest if each[0] < each[1]]
    return tuple(left)


def intersection(intervals: Iterable[Interval], others: Iterable[Interval]) -> Intervals:
    first = union(intervals)
    return difference(first, difference(first, others))


def contiguous_end(intervals: Intervals, after: Mark) -> Mark:
    """Return the end of the interval around `after`, else `after`."""
    for start, end in intervals:
        if start <= after < end:
            return end
    return after


def branch_starts(intervals: Sequence[Interval]) -> tuple[Mark, ...]:
    """Return the marks at which an interval begins before the previous one's end."""
    return tuple(after for (_, end), (after, _) in pairwise(intervals) if after[1] < end[1])


def has_branches(intervals: Sequence[Interval]) -> bool:
    return bool(branch_starts(intervals))
