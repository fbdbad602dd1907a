"""The oracle is sets of numbers."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from broker.archive.interval import Interval, contiguous_end, difference, intersection, union

_MARK = st.integers(0, 12)
_SOME = st.lists(
    st.tuples(_MARK, _MARK).map(lambda pair: ((1, min(pair)), (1, max(pair)))), max_size=6
)


def members(intervals: Iterable[Interval]) -> set[int]:
    return {n for after, upto in intervals for n in range(after[1] + 1, upto[1] + 1)}


@given(_SOME, _SOME)
def test_interval_operations_agree_with_sets(some: list[Interval], others: list[Interval]) -> None:
    assert members(union(some)) == members(some)
    assert members(difference(some, others)) == members(some) - members(others)
    assert members(intersection(some, others)) == members(some) & members(others)
    for found in (union(some), difference(some, others)):
        assert all(after < upto for after, upto in found)
        assert all(before[1] < next_[0] for before, next_ in zip(found, found[1:], strict=False))


@given(_SOME, _MARK)
def test_the_contiguous_end_is_before_the_first_missing_place(
    some: list[Interval], start: int
) -> None:
    end = start
    while end + 1 in members(some):
        end += 1
    assert contiguous_end(union(some), (1, start)) == (1, end)


def test_a_new_epoch_is_not_a_missing_range() -> None:
    assert union([((1, 0), (1, 7)), ((1, 7), (3, 9))]) == (((1, 0), (3, 9)),)
