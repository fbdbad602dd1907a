"""A simple implementation of the order of recovered events, and generated runs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple


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
    stack_site: int = 0

    @property
    def place(self) -> tuple[int, int, int]:
        return self.stack, self.stack_order, self.stack_site


def without_copies(rows: Sequence[Row]) -> list[Row]:
    first: dict[tuple[int, int], Row] = {}
    for row in rows:
        first.setdefault((row.publisher, row.sequence), row)
    return list(first.values())


def plainly(rows: Sequence[Row], *, stacks: bool = False) -> list[Row]:
    """Take the earliest event that may come, repeatedly. Contradictions are not handled."""
    left = sorted(rows, key=lambda row: (row.arrival, *row[:3]))
    came: list[Row] = []

    def may_come(row: Row) -> bool:
        ids = {(each.publisher, each.sequence) for each in came}
        places = {each.place for each in came}
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
                and each.place < row.place
                and each.place not in places
            )
            for each in left
        )

    while left:
        row = next(row for row in left if may_come(row))
        left.remove(row)
        came.append(row)
    return came


def run_of(seed: int, *, events: int = 60) -> list[Row]:
    """Clocks are skewed, and publishers move.

    Each publisher publishes at one origin at a time. After a move it may repeat unacknowledged
    events.
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
    # In order of creation, with occasional missing numbers.
    place = 0
    for number, row in enumerate(rows):
        if rng.random() < 0.5 and not any(r[4:6] == row[4:6] for r in rows[:number]):
            place += rng.choice([1, 1, 3])
            # The site decides between equal orders.
            rows[number] = row._replace(stack=0, stack_order=place // 2, stack_site=place % 2)
    rng.shuffle(rows)
    return rows
