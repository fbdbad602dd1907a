"""Ranges that wait for earlier ones."""

from __future__ import annotations

from random import Random

import pytest

from broker.streams.contract import CarriedEvent
from plugins.dcp.event_range import EventRange, StreamRange
from plugins.dcp.held_ranges import MOST_HELD, HeldRanges

PLENTY = 1 << 20


def make_range(previous: int, upto: int) -> EventRange:
    """Return a range with an event for each AN."""
    events = [CarriedEvent((1, an), b"r", b"%d" % an) for an in range(previous + 1, upto + 1)]
    return EventRange.of_events(previous, upto, events)


def hold(*bounds: tuple[int, int], most_bytes: int = PLENTY) -> HeldRanges[EventRange]:
    held = HeldRanges[EventRange](most_bytes)
    for previous, upto in bounds:
        held.add(make_range(previous, upto), 0.0)
    return held


def spans_of(ranges: HeldRanges[EventRange] | list[EventRange]) -> list[tuple[int, int]]:
    return [(each.previous, each.upto) for each in ranges]


def ans_of(ranges: list[EventRange]) -> list[int]:
    return [event.mark[1] for each in ranges for event in each.events]


def test_no_range_is_held_at_first() -> None:
    held = hold()
    assert not held and spans_of(held) == [] and held.spans(9) == []
    assert held.take_following(0) == [] and held.take_all() == []


def test_ranges_are_in_the_order_of_their_begins() -> None:
    held = hold((20, 25), (40, 45), (10, 12), (30, 31))
    assert held
    assert spans_of(held) == [(10, 12), (20, 25), (30, 31), (40, 45)]
    assert held.first_begin == 10


def test_a_range_within_an_earlier_one_is_not_added() -> None:
    held = hold((10, 20), (10, 20), (14, 20), (12, 13))
    assert spans_of(held) == [(10, 20)]
    assert ans_of(held.take_following(10)) == list(range(11, 21))


def test_the_first_of_two_equal_ranges_is_kept() -> None:
    first, other = (
        EventRange.of_events(10, 20, [CarriedEvent((1, 15), b"", document)])
        for document in (b"first", b"other")
    )
    held = HeldRanges[EventRange](PLENTY)
    held.add(first, 0.0)
    held.add(other, 0.0)
    assert held.take_all() == [first]


def test_following_ranges_lead_on_without_a_break() -> None:
    held = hold((10, 12), (12, 15), (16, 18))
    assert held.take_following(9) == []
    assert spans_of(held.take_following(10)) == [(10, 12), (12, 15)]
    assert spans_of(held) == [(16, 18)]
    assert spans_of(held.take_following(16)) == [(16, 18)]
    assert not held


def test_overlapping_ranges_are_taken_without_the_overlap() -> None:
    held = hold((10, 15), (12, 18), (13, 17), (18, 20))
    taken = held.take_following(11)
    assert spans_of(taken) == [(11, 15), (15, 18), (18, 20)]
    assert ans_of(taken) == list(range(12, 21))


def test_ranges_before_the_place_are_removed() -> None:
    held = hold((10, 12), (14, 16), (30, 31))
    assert held.take_following(20) == []
    assert spans_of(held) == [(30, 31)]


def test_all_are_taken() -> None:
    held = hold((10, 12), (20, 22))
    assert spans_of(held.take_all()) == [(10, 12), (20, 22)]
    assert not held


def test_spans_unite_ranges_that_touch_or_overlap() -> None:
    held = hold((10, 12), (12, 15), (16, 20), (17, 25), (18, 19), (40, 41))
    assert held.spans(9) == [(10, 15), (16, 25), (40, 41)]


def test_the_first_spans_are_listed() -> None:
    held = hold((10, 12), (14, 16), (16, 18), (20, 22), (22, 24))
    assert held.spans(1) == [(10, 12)]
    # The last one is whole, although more spans follow.
    assert held.spans(2) == [(10, 12), (14, 18)]
    assert held.spans(3) == [(10, 12), (14, 18), (20, 24)]


def test_the_furthest_are_dropped_for_nearer_bytes() -> None:
    size = make_range(10, 12).size
    held = hold((40, 42), (30, 32), (20, 22), most_bytes=3 * size)
    assert held.dropped == 0
    held.add(make_range(10, 12), 0.0)
    assert spans_of(held) == [(10, 12), (20, 22), (30, 32)]
    held.add(make_range(50, 52), 0.0)
    assert spans_of(held) == [(10, 12), (20, 22), (30, 32)]
    assert held.dropped == 2


def test_the_number_of_ranges_is_bounded() -> None:
    held = HeldRanges[EventRange](PLENTY)
    for number in range(MOST_HELD + 10):
        held.add(EventRange(2 * number, 2 * number + 1), 0.0)
    assert len(spans_of(held)) == MOST_HELD
    assert held.dropped == 10
    assert spans_of(held)[-1] == (2 * MOST_HELD - 2, 2 * MOST_HELD - 1)


def test_taken_ranges_free_their_room() -> None:
    held = hold(most_bytes=make_range(10, 13).size)
    for number in range(10, 100, 10):
        held.add(make_range(number, number + 3), 0.0)
        assert held.take_following(number + 1) != []
        held.add(make_range(number, number + 3), 0.0)
        assert held.take_following(number + 5) == []
        held.add(make_range(number, number + 3), 0.0)
        assert len(held.take_all()) == 1
    assert held.dropped == 0


def test_streams_lead_on_byte_by_byte() -> None:
    held = HeldRanges[StreamRange](PLENTY)
    held.add(StreamRange(4, 8, b"efgh"), 0.0)
    held.add(StreamRange(2, 6, b"cdef"), 0.0)
    assert held.take_following(1) == []
    taken = held.take_following(3)
    assert b"".join(each.data for each in taken) == b"defgh"


@pytest.mark.parametrize("seed", range(50))
def test_each_an_is_taken_once_and_in_order(seed: int) -> None:
    random, most = Random(seed), 60
    pieces = []
    for _ in range(3):
        cuts = sorted({0, most, *random.sample(range(most), random.randint(1, 20))})
        pieces += [make_range(*bounds) for bounds in zip(cuts, cuts[1:], strict=False)]
    random.shuffle(pieces)
    held = HeldRanges[EventRange](PLENTY)
    current, found = 0, list[int]()
    arrived: set[int] = set()
    for piece in pieces:
        held.add(piece, 0.0)
        arrived.update(range(piece.previous + 1, piece.upto + 1))
        taken = held.take_following(current)
        found += ans_of(taken)
        current = taken[-1].upto if taken else current
        assert found == list(range(1, current + 1))
        assert current + 1 not in arrived
    assert current == most and not held


def select(previous: int, upto: int, *ans: int) -> EventRange:
    return make_range(previous, upto).only(ans)


@pytest.mark.parametrize("is_first", [False, True])
def test_an_event_that_another_range_has_left_out_is_in_the_result(is_first: bool) -> None:
    ranges = [select(10, 20, 12), select(11, 16, 12, 15)]
    held = HeldRanges[EventRange](PLENTY)
    for each in reversed(ranges) if is_first else ranges:
        held.add(each, 0.0)
    following = held.take_following(10)
    assert spans_of(following) == [(10, 20)] and ans_of(following) == [12, 15]


def test_overlapping_ranges_have_the_events_of_each_other() -> None:
    held = HeldRanges[EventRange](PLENTY)
    for each in (select(10, 14, 12), select(10, 20, 16), select(13, 18, 14, 18)):
        held.add(each, 0.0)
    following = held.take_following(10)
    assert spans_of(following) == [(10, 14), (14, 20)] and ans_of(following) == [12, 14, 16, 18]


def test_added_events_count_towards_the_bytes() -> None:
    size = select(10, 20, 15).size
    held = HeldRanges[EventRange](size)
    held.add(select(10, 20), 0.0)
    held.add(select(12, 16, 15), 0.0)
    assert held.dropped == 0
    held.add(select(12, 18, 17), 0.0)
    assert held.dropped == 1 and not held
