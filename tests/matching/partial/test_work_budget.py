"""Work and time of one evaluation."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.matching.partial.work_budget import OutOfTime, TooExpensive, WorkBudget


class Clock:
    now = 5.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def spend_all(work: WorkBudget, clock: Clock, seconds: Callable[[int], float]) -> int:
    """Spend units of these seconds until an error; return the units before it."""
    for unit in range(100_000):
        clock.now += seconds(unit)
        try:
            work.spend()
        except TooExpensive:
            return unit
    raise AssertionError("nothing ended it")


def test_slow_work_ends_by_its_time(clock: Clock) -> None:
    work = WorkBudget(100_000, clock, 0.05)
    # The clock is read each 65 units of 10 us.
    assert 5_000 <= spend_all(work, clock, lambda _: 1e-5) <= 5_065
    assert work.is_out_of_time
    with pytest.raises(OutOfTime):
        work.spend()


def test_quick_work_ends_by_its_limit(clock: Clock) -> None:
    work = WorkBudget(10_000, clock, 0.05)
    assert spend_all(work, clock, lambda _: 1e-6) == 10_000
    assert not work.is_out_of_time


def test_a_pause_of_the_machine_counts_little(clock: Clock) -> None:
    work = WorkBudget(10_000, clock, 0.05)
    assert spend_all(work, clock, lambda unit: 100.0 if unit in (50, 5_000) else 1e-6) == 10_000
    assert not work.is_out_of_time


def test_work_without_a_clock_has_no_time() -> None:
    work = WorkBudget(10_000)
    with pytest.raises(TooExpensive):
        work.spend(10_001)
    assert not work.is_out_of_time
