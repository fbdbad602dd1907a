"""The receiving end in random schedules, while parents change their queries at different ANs."""

from __future__ import annotations

from random import Random

import pytest

from tests.plugins.dcp.schedule import LAST, Schedule
from tests.seeds import seeds


@pytest.mark.parametrize("seed", seeds(100, 300))
def test_events_come_in_order_and_once(seed: int) -> None:
    schedule = Schedule(seed, names="abcd"[: Random(seed).randint(1, 4)])
    schedule.run(60.0)
    child = schedule.child
    assert child.core.current == LAST
    assert child.ans == sorted(schedule.selections[0])
    assert child.core.passed == 0 and child.core.copies.disagreements == []


def check(schedule: Schedule) -> None:
    schedule.run(60.0)
    core, ans = schedule.child.core, schedule.child.ans
    assert core.current == LAST and core.passed == 0 and core.copies.disagreements == []
    assert ans == sorted(set(ans))
    assert schedule.promised <= {*ans} <= frozenset().union(*schedule.selections)


@pytest.mark.parametrize("seed", seeds(100, 200))
def test_a_new_query_skips_no_event_behind_its_an(seed: int) -> None:
    check(Schedule(seed, names="abcd"[: Random(seed).randint(1, 4)], changes=1))


@pytest.mark.parametrize("changes", [2, 3, 5])
@pytest.mark.parametrize("seed", seeds(40, 120))
def test_several_new_queries_at_two_parents_skip_no_event(seed: int, changes: int) -> None:
    check(Schedule(seed, names="ab", changes=changes))


def test_the_schedules_have_parents_that_reach_epochs_at_different_ans() -> None:
    """The changes matter: most schedules require several epochs within the sequence."""
    counts = []
    for seed in range(20):
        schedule = Schedule(seed, names="ab", changes=3)
        schedule.run(60.0)
        counts.append(len({an for an, _ in schedule.required if 0 < an < LAST}))
        assert len(schedule.promised) > len(frozenset.intersection(*schedule.selections)) / 2
    assert sum(count >= 2 for count in counts) >= 10
