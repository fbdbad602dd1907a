"""Epochs of a query along a sequence."""

from __future__ import annotations

import pytest

from plugins.dcp.epoch_steps import NEVER, EpochSteps


def make_steps(*steps: tuple[int, int]) -> EpochSteps:
    """Return steps, each of an AN and the epoch that counts behind it."""
    found = EpochSteps()
    for an, epoch in steps:
        found.add(an, epoch)
    return found


def epochs_at(steps: EpochSteps, *ans: int) -> list[int]:
    return [steps.epoch_at(an) for an in ans]


def test_epoch_0_counts_from_the_begin_on() -> None:
    steps = EpochSteps()
    assert (steps.newest, steps.newest_an) == (0, 0)
    assert epochs_at(steps, 0, 1, 2**63) == [0, 0, 0]
    assert steps.reached_after(0) == 0 and steps.reached_after(1) == NEVER
    assert steps.begins_between(0, 2**63) == []


def test_an_epoch_counts_behind_its_an() -> None:
    steps = make_steps((10, 1), (20, 4))
    assert (steps.newest, steps.newest_an) == (4, 20)
    assert epochs_at(steps, 0, 10, 11, 20, 21, 999) == [0, 0, 1, 1, 4, 4]


def test_an_epoch_behind_the_begin_replaces_epoch_0() -> None:
    steps = make_steps((0, 3))
    assert epochs_at(steps, 0, 1, 9) == [3, 3, 3]
    assert steps.reached_after(1) == 0


@pytest.mark.parametrize("epoch", [0, 1, 2])
def test_an_epoch_that_is_not_newer_changes_nothing(epoch: int) -> None:
    steps = make_steps((10, 1), (20, 2), (15, epoch), (30, epoch))
    assert epochs_at(steps, 10, 20, 31) == [0, 1, 2]
    assert steps.newest_an == 20


def test_a_newer_epoch_does_not_count_before_the_last_one() -> None:
    steps = make_steps((10, 1), (20, 2), (15, 3))
    assert epochs_at(steps, 11, 16, 20, 21) == [1, 1, 1, 3]
    assert steps.begins_between(0, 99) == [10, 20]


def test_two_epochs_at_one_an_are_the_newer_one() -> None:
    steps = make_steps((10, 1), (10, 2))
    assert epochs_at(steps, 10, 11) == [0, 2]
    assert steps.begins_between(0, 99) == [10]


def test_begins_inside_a_range() -> None:
    steps = make_steps((10, 1), (20, 2), (30, 3))
    assert steps.begins_between(9, 31) == [10, 20, 30]
    # An epoch that begins at one of the ends cuts nothing.
    assert steps.begins_between(10, 30) == [20]
    assert steps.begins_between(11, 19) == []


def test_an_epoch_is_reached_where_it_or_a_later_one_begins() -> None:
    steps = make_steps((10, 2), (20, 5))
    reached = [steps.reached_after(epoch) for epoch in range(7)]
    assert reached == [0, 10, 10, 20, 20, 20, NEVER]


def test_the_number_of_steps_is_bounded() -> None:
    steps = make_steps(*((10 * epoch, epoch) for epoch in range(1, 201)))
    begins = steps.begins_between(0, 9_999)
    assert len(begins) < 70 and begins[-1] == 2_000
    # The oldest epochs count nowhere any more, and none counts too early.
    assert epochs_at(steps, begins[0], begins[0] + 1) == [0, begins[0] // 10]
    assert epochs_at(steps, 2_000, 2_001) == [199, 200]
    assert steps.reached_after(1) == begins[0]
