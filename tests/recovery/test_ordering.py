"""The order of recovered events, against what it means and against a plain way to find it."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.recovery.ordering import Keys, Ordered, first_of_each, ordered


class Row(NamedTuple):
    origin: int
    epoch: int
    offset: int
    arrival: int
    publisher: int
    sequence: int
    timestamp: int
    stack: int = -1
    stack_order: int = 0


def keys(rows: Sequence[Row], *, stacks: bool = False) -> Keys:
    columns = np.array(rows, dtype=np.int64).reshape(len(rows), len(Row._fields)).T
    return Keys(*(columns if stacks else columns[:7]))


def in_order(rows: Sequence[Row], *, stacks: bool = False) -> tuple[list[Row], Ordered]:
    found = ordered(keys(rows, stacks=stacks))
    assert sorted(found.rows.tolist()) == list(range(len(rows)))
    return [rows[row] for row in found.rows], found


def without_copies(rows: Sequence[Row]) -> list[Row]:
    first: dict[tuple[int, int], Row] = {}
    for row in rows:
        first.setdefault((row.publisher, row.sequence), row)
    return list(first.values())


def plainly(rows: Sequence[Row], *, stacks: bool = False) -> list[Row]:
    """Of all that may come next the earliest, looked for each time anew; no contradictions."""
    left = sorted(rows, key=lambda row: (row.arrival, *row[:3]))
    came: list[Row] = []

    def may_come(row: Row) -> bool:
        ids = {(each.publisher, each.sequence) for each in came}
        places = {(each.stack, each.stack_order) for each in came}
        return not any(
            (each.origin == row.origin and each[1:3] < row[1:3])
            or (
                each.publisher == row.publisher
                and each.sequence < row.sequence
                and (each.publisher, each.sequence) not in ids
            )
            or (
                stacks
                and each.stack == row.stack >= 0
                and each.stack_order < row.stack_order
                and (each.stack, each.stack_order) not in places
            )
            for each in left
        )

    while left:
        row = next(row for row in left if may_come(row))
        left.remove(row)
        came.append(row)
    return came


def run_of(seed: int, *, events: int = 60) -> list[Row]:
    """What a run with skewed clocks, moving publishers and copies leaves in the archive.

    Each publisher publishes at one origin at a time; it may send what it had published before it
    moved again, as far as it has no answer yet.
    """
    rng = random.Random(seed)
    origins = rng.randrange(1, 5)
    skew = [rng.choice([0, 0, rng.randrange(-50, 50)]) for _ in range(origins)]
    rate = [rng.choice([1.0, 1.0, 0.5, 2.0]) for _ in range(origins)]
    mark = [(1, 0)] * origins
    arrivals = [0] * origins
    at = [rng.randrange(origins) for _ in range(rng.randrange(1, 6))]
    sequence = [0] * len(at)
    answered = [0] * len(at)
    moves = rng.choice([0.0, 0.05, 0.3])
    rows: list[Row] = []
    for now in range(events):
        publisher = rng.randrange(len(at))
        if rng.random() < moves:
            at[publisher] = rng.randrange(origins)
            answered[publisher] = max(
                answered[publisher], sequence[publisher] - rng.choice([0, 0, 1, 3])
            )
        else:
            answered[publisher] = sequence[publisher]
        origin = at[publisher]
        sequence[publisher] += 1
        for number in range(answered[publisher] + 1, sequence[publisher] + 1):
            if any(
                (r.origin, r.publisher, r.sequence) == (origin, publisher, number) for r in rows
            ):
                continue
            epoch, offset = mark[origin]
            mark[origin] = (epoch + (rng.random() < 0.05), offset + rng.choice([1, 1, 2]))
            local = int(1000 + now * rate[origin] + skew[origin])
            arrivals[origin] = max(arrivals[origin], local)
            rows.append(
                Row(origin, *mark[origin], arrivals[origin], publisher, number, number * 10)
            )
    # A stack orders some of them as they came to be, now and then with a hole.
    place = 0
    for number, row in enumerate(rows):
        if rng.random() < 0.5 and not any(r[4:6] == row[4:6] for r in rows[:number]):
            place += rng.choice([1, 1, 3])
            rows[number] = row._replace(stack=0, stack_order=place)
    rng.shuffle(rows)
    return rows


def holds(rows: Sequence[Row]) -> None:
    last_mark: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for row in rows:
        assert row[1:3] > last_mark[row.origin]
        last_mark[row.origin] = (row.epoch, row.offset)
    last_number: dict[int, int] = defaultdict(int)
    for row in without_copies(rows):
        assert row.sequence > last_number[row.publisher]
        last_number[row.publisher] = row.sequence


@pytest.mark.parametrize("seed", range(300))
def test_of_any_run_each_origin_and_each_publisher_comes_in_order(seed: int) -> None:
    rows, found = in_order(run_of(seed))
    assert found.contradictions == 0
    holds(rows)


@pytest.mark.parametrize("seed", range(300))
def test_it_is_the_order_that_is_found_by_taking_the_earliest_each_time(seed: int) -> None:
    rows = run_of(seed)
    assert in_order(rows)[0] == plainly(rows)


@pytest.mark.parametrize("seed", range(100))
def test_the_order_of_a_stack_holds_too_where_it_is_asked_for(seed: int) -> None:
    rows = run_of(seed)
    found, how = in_order(rows, stacks=True)
    assert how.contradictions == 0
    assert found == plainly(rows, stacks=True)
    placed = [row.stack_order for row in found if row.stack >= 0]
    assert placed == sorted(placed)


def test_the_runs_are_no_easy_ones() -> None:
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


#: What no run leaves: any publisher anywhere at any time.
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
).map(lambda rows: [Row(*row, timestamp=row[-1]) for row in rows])


@given(ANY)
def test_where_orders_contradict_each_other_that_of_origins_holds(rows: list[Row]) -> None:
    found, how = in_order(rows)
    last: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for row in found:
        assert row[1:3] > last[row.origin]
        last[row.origin] = (row.epoch, row.offset)
    if not how.contradictions:
        holds(found)
        assert found == plainly(rows)


def test_a_contradiction_is_counted() -> None:
    # P and Q have swapped places, each before the other.
    rows = [
        Row(0, 1, 1, 1, publisher=1, sequence=6, timestamp=0),
        Row(0, 1, 2, 2, publisher=0, sequence=5, timestamp=0),
        Row(1, 1, 1, 1, publisher=0, sequence=6, timestamp=0),
        Row(1, 1, 2, 2, publisher=1, sequence=5, timestamp=0),
    ]
    assert in_order(rows)[1].contradictions == 1


def test_a_late_copy_is_not_waited_for() -> None:
    # P's first two events were logged at B, which was then cut off; P sends both again to A, where
    # Q is by now, behind what Q published at B after P.
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


def test_nothing_is_in_order() -> None:
    assert len(ordered(keys([])).rows) == 0


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2))))
def test_the_first_of_each_is_the_first_row_with_its_values(rows: list[tuple[int, int]]) -> None:
    columns = np.array(rows, dtype=np.int64).reshape(len(rows), 2).T
    expected = [row not in rows[:place] for place, row in enumerate(rows)]
    assert first_of_each(*columns).tolist() == expected
