"""The order of recovered events, compared with its definition and a simple implementation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.replay.ordering import (
    EventOrder,
    OrderKeys,
    StackPlaces,
    mark_first_of_each,
    order_events,
)
from tests.replay.plain_order import Row, plainly, run_of, without_copies


def keys(rows: Sequence[Row], *, stacks: bool = False) -> OrderKeys:
    columns = np.array(rows, dtype=np.int64).reshape(len(rows), len(Row._fields)).T
    return OrderKeys(*columns[:7], stacks=StackPlaces(*columns[7:]) if stacks else None)


def in_order(rows: Sequence[Row], *, stacks: bool = False) -> tuple[list[Row], EventOrder]:
    found = order_events(keys(rows, stacks=stacks))
    assert sorted(found.rows.tolist()) == list(range(len(rows)))
    return [rows[row] for row in found.rows], found


def holds(rows: Sequence[Row]) -> None:
    last_mark: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for row in rows:
        assert row[1:3] > last_mark[row.origin]
        last_mark[row.origin] = (row.epoch, row.offset)
    last_number: dict[int, int] = defaultdict(int)
    for row in without_copies(rows):
        assert row.sequence > last_number[row.publisher]
        last_number[row.publisher] = row.sequence


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_each_origin_and_each_publisher_is_in_order(first: int) -> None:
    for seed in range(first, first + 50):
        rows = run_of(seed)
        ordered, found = in_order(rows)
        assert found.contradictions == 0, f"seed {seed}"
        holds(ordered)
        # The definition: the earliest event is taken repeatedly.
        assert ordered == plainly(rows), f"seed {seed}"


@pytest.mark.parametrize("first", range(0, 100, 50))
def test_the_order_of_a_stack_holds_on_request(first: int) -> None:
    for seed in range(first, first + 50):
        rows = run_of(seed)
        found, how = in_order(rows, stacks=True)
        assert how.contradictions == 0, f"seed {seed}"
        assert found == plainly(rows, stacks=True), f"seed {seed}"
        placed = [row.place for row in found if row.stack >= 0]
        assert placed == sorted(placed), f"seed {seed}"


def test_the_generated_runs_are_hard() -> None:
    disordered = copies = placed_anew = 0
    for seed in range(300):
        rows = run_of(seed)
        by_arrival = sorted(rows, key=lambda row: (row.arrival, *row[:3]))
        disordered += plainly(rows) != by_arrival
        copies += len(without_copies(rows)) < len(rows)
        if seed < 100:
            placed_anew += in_order(rows, stacks=True)[0] != in_order(rows)[0]
    assert disordered > 50
    assert copies > 50
    assert placed_anew > 10


#: No run could produce these.
ANY = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.integers(1, 2),
        st.integers(1, 30),
        st.integers(0, 20),
        st.integers(0, 2),
        st.integers(1, 9),
    ),
    max_size=30,
    unique_by=lambda row: row[:3],
).map(lambda rows: [Row(*(*row, row[-1])) for row in rows])


@given(ANY)
def test_the_order_of_origins_holds_despite_contradictions(rows: list[Row]) -> None:
    found, how = in_order(rows)
    last: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for row in found:
        assert row[1:3] > last[row.origin]
        last[row.origin] = (row.epoch, row.offset)
    if not how.contradictions:
        holds(found)
        assert found == plainly(rows)


def test_a_contradiction_is_counted() -> None:
    rows = [
        Row(0, 1, 1, 1, publisher=1, sequence=6, timestamp=0),
        Row(0, 1, 2, 2, publisher=0, sequence=5, timestamp=0),
        Row(1, 1, 1, 1, publisher=0, sequence=6, timestamp=0),
        Row(1, 1, 2, 2, publisher=1, sequence=5, timestamp=0),
    ]
    assert in_order(rows)[1].contradictions == 1


def test_contradicting_events_come_before_later_arrivals() -> None:
    # Each of two publishers was logged backwards, and a third publisher's events around them.
    rows = [
        Row(0, 1, 1, 1, publisher=0, sequence=2, timestamp=0),
        Row(0, 1, 2, 2, publisher=0, sequence=1, timestamp=0),
        Row(1, 1, 1, 3, publisher=1, sequence=1, timestamp=0),
        Row(1, 1, 2, 4, publisher=2, sequence=2, timestamp=0),
        Row(1, 1, 3, 5, publisher=2, sequence=1, timestamp=0),
        Row(0, 1, 3, 6, publisher=1, sequence=2, timestamp=0),
    ]
    found, how = in_order(rows)
    assert (found, how.contradictions) == (rows, 2)


def test_a_late_copy_is_not_waited_for() -> None:
    # P's first two events were logged at B, then B was cut off. P sends both again to A, where Q is
    # now. Q had published at B after P.
    rows = [
        Row(0, 1, 1, 30, publisher=1, sequence=2, timestamp=0),  # Q2 at A
        Row(0, 1, 2, 31, publisher=0, sequence=1, timestamp=0),  # P1 at A: a copy
        Row(0, 1, 3, 32, publisher=0, sequence=2, timestamp=0),
        Row(1, 1, 1, 10, publisher=0, sequence=1, timestamp=0),  # P1 at B
        Row(1, 1, 2, 11, publisher=0, sequence=2, timestamp=0),
        Row(1, 1, 3, 12, publisher=1, sequence=1, timestamp=0),  # Q1 at B
    ]
    found, how = in_order(rows)
    assert how.contradictions == 0
    assert found == [*rows[3:], *rows[:3]]


def test_no_rows_give_an_empty_order() -> None:
    assert len(order_events(keys([])).rows) == 0


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2))))
def test_the_first_of_each_is_the_first_row_with_its_values(rows: list[tuple[int, int]]) -> None:
    columns = np.array(rows, dtype=np.int64).reshape(len(rows), 2).T
    expected = [row not in rows[:place] for place, row in enumerate(rows)]
    assert mark_first_of_each(*columns).tolist() == expected
