"""Ranges that several children share: their bytes, pieces, and runs that are merged."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.dcp.event_range import EventRange, decode_range, merge_ranges
from tests.plugins.dcp.test_event_range import (
    EPOCH,
    ans_of,
    body_of,
    bounds_of,
    event_ranges,
    make_event,
    make_range,
)

# ------------------------------------------------------------------ body


@given(event_ranges())
def test_the_body_is_that_of_all_entries(range_: EventRange) -> None:
    assert range_.body == body_of(range_) and range_.body is range_.body
    assert range_.size == len(range_.body)


def test_the_body_of_one_event_is_its_entry() -> None:
    range_ = make_range(5, 9, 7)
    assert range_.body is range_.entries[0]
    assert make_range(5, 9).body == b"" and make_range(5, 9).size == 0


def test_a_decoded_range_has_the_body_that_came() -> None:
    body = bytes(bytearray(make_range(5, 9, 6, 7, 9).body))
    decoded = decode_range(5, 9, EPOCH, body)
    assert decoded.body is body and decoded.begin_at(2).body is body
    assert decoded.after(6).body == make_range(6, 9, 7, 9).body
    assert decoded.until(7).body == make_range(5, 7, 6, 7).body


def test_ranges_are_equal_with_and_without_their_body() -> None:
    first, second = make_range(5, 9, 6, 7), make_range(5, 9, 6, 7)
    assert first.body and first.pieces(1) and first == second
    assert first != make_range(5, 9, 6)


@pytest.mark.parametrize("room", [1, 30, 10_000])
def test_the_parts_of_a_range_have_their_own_bytes(room: int) -> None:
    whole = make_range(10, 20, 12, 15, 18)
    assert whole.body
    head, rest = whole.split(room)
    parts = [head, *([] if rest is None else [rest])]
    assert b"".join(each.body for each in parts) == whole.body
    adopted = whole.adopt([EventRange.of_events(14, 15, [make_event(15, b"other document")])])
    assert adopted.body == body_of(adopted) != whole.body
    assert [each.body for each in whole.single_events()] == list(whole.entries)


# ------------------------------------------------------------------ pieces


def split_all(range_: EventRange, room: int) -> list[EventRange]:
    found = []
    rest: EventRange | None = range_
    while rest is not None:
        head, rest = rest.split(room)
        found.append(head)
    return found


@given(event_ranges(), st.integers(1, 120))
def test_pieces_are_those_of_repeated_splits(range_: EventRange, room: int) -> None:
    pieces = range_.pieces(room)
    assert list(pieces) == split_all(range_, room)
    assert [each.body for each in pieces] == [body_of(each) for each in pieces]


def test_pieces_are_cut_once_for_each_room() -> None:
    whole = make_range(10, 20, 12, 15, 18)
    room = 2 * len(whole.entries[0])
    pieces = whole.pieces(room)
    assert whole.pieces(room) is pieces
    assert [bounds_of(each) for each in pieces] == [(10, 15), (15, 20)]
    assert len(whole.pieces(1)) == 3 and len(whole.pieces(room)) == 2


def test_a_range_that_fits_is_its_only_piece() -> None:
    for range_ in (make_range(10, 20, 12, 15), make_range(10, 20, 12), make_range(10, 20)):
        assert range_.pieces(10_000)[0] is range_ and len(range_.pieces(10_000)) == 1
    assert len(make_range(10, 20, 12).pieces(1)) == len(make_range(10, 20).pieces(1)) == 1


# ------------------------------------------------------------------ merged ranges


def test_adjacent_ranges_are_merged() -> None:
    ranges = [make_range(0, 5, 3), make_range(5, 8), make_range(8, 10, 9, 10)]
    (merged,) = merge_ranges(ranges)
    assert bounds_of(merged) == (0, 10) and ans_of(merged) == [3, 9, 10]
    assert merged.body == b"".join(each.body for each in ranges)


def test_ranges_with_a_missing_one_between_are_not_merged() -> None:
    ranges = [make_range(0, 5, 3), make_range(6, 8, 7), make_range(8, 9), make_range(12, 13, 13)]
    merged = merge_ranges(ranges)
    assert [bounds_of(each) for each in merged] == [(0, 5), (6, 9), (12, 13)]
    # Those without a neighbour are the same objects.
    assert merged[0] is ranges[0] and merged[2] is ranges[3]
    assert merge_ranges([]) == []


@pytest.mark.parametrize("seed", range(20))
def test_merged_ranges_have_all_events_in_order(seed: int) -> None:
    random = Random(seed)
    ranges, an = [], 0
    for _ in range(30):
        previous = an + random.choice([0, 0, 0, 2])
        an = previous + random.randint(1, 4)
        ranges.append(make_range(previous, an, *random.choice([(), (an,)])))
    merged = merge_ranges(ranges)
    assert [entry for each in merged for entry in each.entries] == [
        entry for each in ranges for entry in each.entries
    ]
    assert all(a.upto < b.previous for a, b in zip(merged, merged[1:], strict=False))
    assert {bounds_of(each)[0] for each in merged} <= {each.previous for each in ranges}
    assert sum(b - a for a, b in map(bounds_of, merged)) == sum(
        b - a for a, b in map(bounds_of, ranges)
    )
