"""The ranges of one parent."""

from __future__ import annotations

from plugins.dcp.epoch_steps import EpochSteps
from plugins.dcp.parent_chain import ParentChain

MOST_UNAVAILABLE = 4_096
#: Every query counts.
FIRST = EpochSteps()


def make_required(*steps: tuple[int, int]) -> EpochSteps:
    """Return steps, each of an AN and the epoch that is required behind it."""
    found = EpochSteps()
    for an, epoch in steps:
        found.add(an, epoch)
    return found


def make_chain(begin: int, *unavailable: tuple[int, int], end: int | None = None) -> ParentChain:
    chain = ParentChain()
    chain.begin(begin)
    if end is not None:
        chain.advance(end, 1.0)
    for after, upto in unavailable:
        chain.add_unavailable(after, upto, 0)
    return chain


def test_a_chain_begins_with_its_first_range() -> None:
    chain = ParentChain()
    assert not chain.has_begun and not chain.has_passed(0, FIRST)
    chain.begin(0)
    assert chain.has_begun and (chain.start, chain.end) == (0, 0)
    assert chain.unavailable_after(0, FIRST) is None


def test_a_chain_advances() -> None:
    chain = make_chain(10, end=15)
    assert (chain.start, chain.end, chain.advanced_at) == (10, 15, 1.0)
    assert chain.has_passed(14, FIRST) and not chain.has_passed(15, FIRST)


def test_a_parent_can_not_send_ranges_before_its_first_one() -> None:
    chain = make_chain(10)
    assert [chain.unavailable_after(an, FIRST) for an in (0, 9, 10)] == [10, 10, None]
    assert chain.has_passed(9, FIRST) and not chain.has_passed(10, FIRST)


def test_a_parent_has_passed_the_ranges_that_it_can_not_send() -> None:
    chain = make_chain(10, (20, 30), end=15)
    assert chain.has_passed(20, FIRST) and chain.has_passed(29, FIRST)
    assert not chain.has_passed(19, FIRST) and not chain.has_passed(30, FIRST)


def test_the_end_of_an_unavailable_range() -> None:
    chain = make_chain(0, (40, 50), (20, 30))
    ends = [chain.unavailable_after(an, FIRST) for an in (19, 20, 29, 30, 40, 49, 50)]
    assert ends == [None, 30, 30, None, 50, 50, None]


def test_the_furthest_end_of_unavailable_ranges_counts() -> None:
    chain = make_chain(0, (20, 30), (10, 60), (25, 40))
    assert [chain.unavailable_after(an, FIRST) for an in (5, 10, 27, 59)] == [None, 60, 60, 60]


def test_ranges_without_ans_are_not_noted() -> None:
    chain = make_chain(0, (20, 20), (30, 25))
    assert all(chain.unavailable_after(an, FIRST) is None for an in range(40))


def test_ranges_up_to_the_present_place_are_dropped() -> None:
    chain = make_chain(0, (10, 20), (30, 40))
    chain.add_unavailable(50, 60, 20)
    assert [chain.unavailable_after(an, FIRST) for an in (10, 30, 50)] == [None, 40, 60]
    chain.add_unavailable(50, 60, 39)
    assert [chain.unavailable_after(an, FIRST) for an in (30, 50)] == [40, 60]


def test_the_furthest_ranges_are_dropped_if_there_is_no_room() -> None:
    begins = range(10 * MOST_UNAVAILABLE + 1_000, 0, -10)
    chain = make_chain(0, *((an, an + 5) for an in begins))
    kept = [an for an in begins if chain.unavailable_after(an, FIRST) is not None]
    assert kept == list(range(10 * MOST_UNAVAILABLE, 0, -10))


def test_a_repeated_range_needs_no_room() -> None:
    chain = make_chain(0, *((10, 20) for _ in range(100)), (30, 40))
    assert chain.unavailable_after(30, FIRST) == 40


# ------------------------------------------------------------------ queries


def test_a_parent_with_an_older_query_can_not_send_what_it_has_passed() -> None:
    chain, required = make_chain(10, end=30), make_required((20, 1))
    assert [chain.unavailable_after(an, required) for an in (19, 20, 29, 30)] == [
        *(None, 30, 30, None),
    ]
    assert chain.has_passed(20, required) and not chain.has_passed(30, required)


def test_a_parent_can_send_events_from_the_begin_of_a_required_query_on() -> None:
    chain, required = make_chain(10, end=40), make_required((20, 1))
    chain.epochs.add(25, 1)
    assert [chain.unavailable_after(an, required) for an in (19, 20, 24, 25, 39)] == [
        *(None, 25, 25, None, None),
    ]


def test_a_parent_with_a_newer_query_can_send_all() -> None:
    chain = make_chain(10, end=40)
    chain.epochs.add(10, 3)
    required = make_required((10, 1), (20, 2))
    assert all(chain.unavailable_after(an, required) is None for an in range(10, 41))


def test_a_parent_that_skipped_a_required_query() -> None:
    chain = make_chain(10, end=40)
    chain.epochs.add(10, 1)
    chain.epochs.add(34, 3)
    required = make_required((10, 1), (24, 2), (34, 3))
    assert [chain.unavailable_after(an, required) for an in (23, 24, 33, 34)] == [
        *(None, 34, 34, None),
    ]
