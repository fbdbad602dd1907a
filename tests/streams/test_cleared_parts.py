"""Batches are cut at the events above the clearance of their transport."""

from __future__ import annotations

from collections.abc import Sequence

from broker.streams.cleared_parts import split_at_withheld
from broker.streams.contract import CarriedEvent, FlowBatch

FLOW = "0" * 24


def split(
    levels: Sequence[int], rank: int, after: int = 0, upto: int | None = None
) -> list[tuple[int, int, list[int], list[str]]]:
    """Return begin, end, offsets and targets of each part. The first event is at `after` + 1."""
    events = [
        CarriedEvent((1, after + number), b"", b"", level) for number, level in enumerate(levels, 1)
    ]
    end = after + len(levels) if upto is None else upto
    batch = FlowBatch(FLOW, "c/n", (1, after), (1, end), events)
    targets = [frozenset({f"t{event.mark[1]}"}) for event in events]
    return [
        (
            part.after[1],
            part.upto[1],
            [event.mark[1] for event in part.events],
            [str(target) for those in chosen for target in those],
        )
        for part, chosen in split_at_withheld(batch, targets, rank)
    ]


def test_a_batch_within_the_clearance_is_one_part() -> None:
    assert split([0, 1, 1], 1) == [(0, 3, [1, 2, 3], ["t1", "t2", "t3"])]
    assert split([0, 2], 2) == [(0, 2, [1, 2], ["t1", "t2"])]


def test_places_of_events_above_the_clearance_are_in_no_part() -> None:
    assert split([0, 2, 1, 2, 2, 0], 1) == [
        (0, 1, [1], ["t1"]),
        (2, 3, [3], ["t3"]),
        (5, 6, [6], ["t6"]),
    ]


def test_no_part_is_empty_at_the_ends_of_a_batch() -> None:
    assert split([2, 0, 2], 1, after=4) == [(5, 6, [6], ["t6"])]
    assert split([2], 1) == split([2, 2], 0) == []


def test_places_without_events_stay_in_their_parts() -> None:
    assert split([0, 2], 1, after=4, upto=9) == [(4, 5, [5], ["t5"]), (6, 9, [], [])]
    assert split([], 0, after=4, upto=9) == [(4, 9, [], [])]
    assert split([], 0, after=4, upto=4) == []
