"""The receiving end of one sequence, from several parents."""

from __future__ import annotations

import pytest
from pytest import approx

from plugins.dcp.copy_comparison import Omission
from plugins.dcp.nack_timer import NackSettings
from plugins.dcp.parent_path import ParentPath
from plugins.dcp.receiver import MOST_LISTED, Nack, ReceiverSettings
from tests.plugins.dcp.receiving_child import Child

# ------------------------------------------------------------------ order


def test_the_first_range_begins_the_sequence() -> None:
    child = Child("a", start=None)
    assert child.core.current is None and not child.core.is_incomplete
    assert child.give("a", 10, 12, 11) == [(10, 12, [11])]
    assert child.core.current == 12
    assert child.core.begin(5, 0.0) == [] and child.core.current == 12


def test_a_sequence_that_has_begun_waits_for_its_first_range() -> None:
    child = Child("a", start=5)
    assert child.give("a", 7, 9, 8) == []
    assert child.core.is_incomplete
    assert child.give("a", 5, 7, 6) == [(5, 7, [6]), (7, 9, [8])]
    assert not child.core.is_incomplete


def test_a_range_is_delivered_if_the_place_is_within_it() -> None:
    child = Child("a", start=10)
    assert child.give("a", 5, 10, 7) == []
    assert child.give("a", 5, 12, 7, 11) == [(10, 12, [11])]
    assert child.give("a", 12, 15, 14) == [(12, 15, [14])]
    assert child.give("a", 12, 15, 14) == []
    assert child.give("a", 16, 18, 17) == []
    assert child.ans == [11, 14]


def test_two_parents_with_different_packing_bring_each_event_once() -> None:
    child = Child("ab")
    child.give("a", 0, 3, 1, 3)
    child.give("b", 0, 5, 1, 3, 5)
    child.give("b", 9, 12, 10, 12)
    child.give("a", 3, 8, 5, 8)
    assert child.give("a", 8, 11, 9, 10) == [(8, 11, [9, 10]), (11, 12, [12])]
    child.give("b", 5, 9, 8, 9)
    assert child.ans == [1, 3, 5, 8, 9, 10, 12]
    assert child.paths["a"].first + child.paths["b"].first == 7
    assert child.paths["a"].duplicate + child.paths["b"].duplicate == 6


def test_filtered_ans_are_not_missing() -> None:
    child = Child("ab")
    child.give("a", 0, 40, 40)
    child.give("b", 0, 20)
    child.give("a", 40, 41, 41)
    child.give("a", 41, 1_000, 1_000)
    child.give("b", 20, 1_000, 40, 41, 1_000)
    assert child.ans == [40, 41, 1_000]
    assert not child.core.is_incomplete and child.nacks_until(1e9) == []


# ------------------------------------------------------------------ requests


def test_a_range_that_all_parents_have_passed_is_requested_fast() -> None:
    child = Child("ab")
    child.give("a", 10, 20, 15, now=1.0)
    assert child.core.next_timeout() == approx(1.05)
    child.give("b", 10, 20, 15, now=1.01)
    assert child.nacks_until(1.014) == []
    assert child.nacks_until(1.016) == [(1.015, Nack(0, [(10, 20)]))]


def test_a_range_that_a_parent_may_still_bring_is_requested_slowly() -> None:
    child = Child("ab")
    child.give("a", 10, 20, 15, now=1.0)
    assert child.nacks_until(1.049) == []
    assert child.nacks_until(1.051)[:1] == [(1.05, Nack(0, [(10, 20)]))]


def test_reordering_delays_a_request_up_to_the_slow_one() -> None:
    child = Child("a")
    child.give("a", 10, 20, 15, now=1.0)
    child.give("a", 0, 10, 5, now=1.008)  # It was late by 8 ms.
    child.give("a", 30, 40, 35, now=1.1)
    assert child.nacks_until(1.131) == []
    assert child.nacks_until(1.133)[0][0] == 1.132
    child.paths["a"].reordering.add_sample(9.0)
    child.give("a", 20, 30, 25, now=2.0, is_repeated=True)
    child.give("a", 50, 60, 55, now=2.0)
    assert 2.05 <= child.nacks_until(4.0)[0][0] < 3.0


def test_a_parent_that_begins_ahead_without_events_causes_no_request() -> None:
    child = Child("ab")
    child.give("a", 0, 3)
    child.give("b", 0, 3)
    child.paths["c"] = ParentPath("c")
    child.core.set_parent("c", 8, 0, 1.0)
    assert child.give("c", 8, 9, now=1.0) == []
    # The others state their places with a keep-alive, later than a slow request would be sent.
    assert child.nacks_until(5.0) == []
    assert child.give("a", 3, 8, now=5.0) == [(3, 8, []), (8, 9, [])]
    # With an event that is held, or once another parent is ahead, they are requested.
    assert child.give("c", 12, 14, 14, now=6.0) == []
    assert child.nacks_until(60.0) != []
    child.give("a", 9, 12, now=60.0)
    assert child.give("b", 16, 17, now=61.0) == []
    assert child.nacks_until(120.0) != []
    assert child.ans == [14]


def test_an_event_behind_a_parent_that_began_ahead_waits_no_longer_than_the_patience() -> None:
    child = Child("a", ReceiverSettings(nack=NackSettings(patience=2.0)))
    child.give("a", 0, 3)
    child.paths["c"] = ParentPath("c")
    child.core.set_parent("c", 8, 0, 1.0)
    assert child.give("c", 8, 9, now=1.0) == []
    assert child.give("c", 9, 10, 10, now=9.0) == []
    child.nacks_until(9.0)
    assert child.ans == [10] and child.core.passed == 1


def test_the_delays_may_be_fixed() -> None:
    settings = ReceiverSettings(nack=NackSettings(fixed_slow=0.3, fixed_fast=0.1))
    child = Child("ab", settings)
    child.give("a", 10, 20, 15, now=1.0)
    assert child.core.next_timeout() == approx(1.3)
    child.give("b", 10, 20, 15, now=1.1)
    assert child.core.next_timeout() == approx(1.2)


def test_a_slow_parent_causes_no_request() -> None:
    child = Child("ab")
    arrivals = []
    for number in range(60):
        previous, upto, at = 10 * number, 10 * number + 10, number / 10
        if number % 7 != 5 or number < 20:  # "a" loses some, once the delay of "b" is known.
            arrivals.append((at, "a", previous, upto))
        arrivals.append((at + 0.45, "b", previous, upto))
    for at, parent, previous, upto in sorted(arrivals):
        assert child.nacks_until(at) == []
        child.give(parent, previous, upto, upto, now=at)
    assert child.ans == list(range(10, 601, 10))
    assert child.paths["a"].lost == 5 and child.paths["b"].lost == 0


def test_the_end_of_a_parent_shows_a_missing_last_range() -> None:
    child = Child("ab")
    child.give("a", 0, 10, 5)
    assert child.core.receive_end("a", 10, 1.0) == [] and not child.core.is_incomplete
    child.core.receive_end("a", 20, 1.0)
    assert child.core.is_incomplete
    assert child.give("b", 0, 20, 5, 15) == [(10, 20, [15])]
    assert not child.core.is_incomplete


def test_the_interval_of_requests_doubles_up_to_a_second() -> None:
    child = Child("a")
    # Its answers seldom need more than 0.04 + 4 * 0.02 s.
    child.paths["a"].round_trip.add_sample(0.04, 0.0)
    child.give("a", 10, 20, 15)
    times = [at for at, _ in child.nacks_until(5.0)]
    intervals = [later - earlier for earlier, later in zip([0.0, *times], times, strict=False)]
    assert intervals == approx([0.005, 0.12, 0.24, 0.48, 0.96, 1.0, 1.0, 1.0])
    assert child.core.nacks == 8


def test_a_range_that_comes_lets_the_interval_begin_anew() -> None:
    child = Child("a")
    child.paths["a"].round_trip.add_sample(0.04, 0.0)
    child.give("a", 10, 20, 15)
    child.give("a", 30, 40, 35)
    assert len(child.nacks_until(2.0)) == 5
    child.give("a", 0, 10, 5, now=2.0, is_repeated=True)
    assert child.nacks_until(2.1) == [(2.005, Nack(20, [(30, 40)]))]
    assert child.nacks_until(2.126)[0][0] == 2.125


def test_a_part_that_comes_lets_requests_and_patience_begin_anew() -> None:
    child = Child("a", ReceiverSettings())
    child.core.note_part(0, 1, 0.0)
    assert child.core.next_timeout() is None
    child.give("a", 10, 20, 15)
    # The pause between two parts is shorter than the delay of a request, 0.05 s.
    for number in range(1, 1_000):
        assert child.nacks_until(number * 0.004) == []
        child.core.note_part(0, 1, number * 0.004)
    assert child.core.current == 0
    times = [at for at, _ in child.nacks_until(10.0)]
    assert times[0] == approx(3.996 + 0.05) and len(times) > 1
    assert child.core.current == 20 and child.core.passed == 1


def test_a_request_lists_the_first_held_spans() -> None:
    child = Child("a")
    for number in range(1, 41):
        child.give("a", 10 * number, 10 * number + 5, 10 * number + 1)
    (_, nack) = child.nacks_until(0.006)[0]
    assert nack == Nack(0, [(10 * n, 10 * n + 5) for n in range(1, MOST_LISTED + 1)])


def test_an_event_that_the_quicker_parent_leaves_out_is_late_behind_its_place() -> None:
    child = Child("ab")
    assert child.give("a", 0, 9, 8) == [(0, 9, [8])]
    assert child.give("b", 0, 9, 4, 8) == []
    assert child.core.copies.omissions == [Omission(4, "b", ["a"], is_late=True)]
    # Once: a copy does not show it again.
    assert child.give("b", 0, 9, 4, 8) == [] and len(child.core.copies.omissions) == 1


def test_a_late_event_shows_what_its_own_parent_has_left_out() -> None:
    child = Child("a")
    child.give("a", 0, 9, 8)
    child.give("a", 3, 4, 4, is_repeated=True)
    assert child.core.copies.omissions == [Omission(4, "a", ["a"], is_late=True)]


@pytest.mark.parametrize("is_first", [False, True])
def test_an_event_that_one_parent_leaves_out_is_delivered_before_its_place_is_passed(
    is_first: bool,
) -> None:
    child = Child("ab")
    ranges = {"a": (8,), "b": (4, 8)}
    for parent in "ba" if is_first else "ab":
        assert child.give(parent, 2, 9, *ranges[parent]) == []
    assert child.give("a", 0, 2) == [(0, 2, []), (2, 9, [4, 8])]


def test_an_event_ahead_is_delivered_with_a_range_that_has_left_it_out() -> None:
    child = Child("ab")
    child.give("b", 3, 9, 4, 8)
    assert child.give("a", 0, 9, 8) == [(0, 9, [4, 8])]
