"""A node that drops its children, so that its level may rise."""

from __future__ import annotations

from random import Random

import pytest
from pytest import approx

from plugins.dcp.mesh.reinitialisation import Reinitialisation
from tests.plugins.dcp.recording_connection import RecordingConnection


def make_children(count: int) -> list[RecordingConnection]:
    return [
        RecordingConnection(f"c{number}", number, is_dialled=False)
        for number in range(1, count + 1)
    ]


def ask_children(core: Reinitialisation, children: list[RecordingConnection], now: float) -> float:
    """Let the plan come so far that the children are asked; return the time."""
    core.consider(True, now)
    due = core.next_timeout()
    assert due is not None and core.take_due(children, due)
    return due


def test_a_node_waits_a_random_time_of_at_most_a_second() -> None:
    waits = []
    for seed in range(50):
        core = Reinitialisation(Random(seed))
        core.consider(True, 100.0)
        due = core.next_timeout()
        assert due is not None and not core.take_due([], due - 0.001)
        # It is not planned anew while it waits.
        core.consider(True, due)
        assert core.next_timeout() == due and core.take_due([], due)
        waits.append(due - 100.0)
    assert 0.0 <= min(waits) < 0.2 and 0.8 < max(waits) <= 1.0


def test_the_children_are_asked_once() -> None:
    core, children = Reinitialisation(Random(1)), make_children(2)
    due = ask_children(core, children, 0.0)
    assert not core.take_due(children, due) and not core.take_permitted(due)
    core.consider(True, due)
    assert not core.take_due(children, due + 2.0)


def test_a_node_goes_on_when_all_children_permit_it() -> None:
    core, children = Reinitialisation(Random(1)), make_children(3)
    due = ask_children(core, children, 0.0)
    for child in children:
        assert not core.take_permitted(due + 0.1)
        core.permit(child)
    assert core.next_timeout() == 0.0
    assert core.take_permitted(due + 0.1) and core.count == 1
    assert not core.take_permitted(due + 0.1) and core.next_timeout() is None


def test_a_node_goes_on_after_6_s_without_permission() -> None:
    core, children = Reinitialisation(Random(1)), make_children(2)
    due = ask_children(core, children, 0.0)
    core.permit(children[0])
    assert core.next_timeout() == approx(due + 6.0)
    assert not core.take_permitted(due + 5.9)
    assert core.take_permitted(due + 6.0)


def test_permission_that_was_not_asked_for_counts_for_nothing() -> None:
    core, children = Reinitialisation(Random(1)), make_children(1)
    core.permit(children[0])
    core.consider(True, 0.0)
    core.permit(children[0])
    due = core.next_timeout()
    assert due is not None and core.take_due(children, due)
    assert not core.take_permitted(due)


def test_a_node_does_so_once_in_20_s() -> None:
    core, children = Reinitialisation(Random(1)), make_children(1)
    begin = ask_children(core, children, 0.0) + 6.0
    assert core.take_permitted(begin)
    core.consider(True, begin + 0.1)
    assert core.next_timeout() == approx(begin + 20.0)
    assert not core.take_due(children, begin + 19.9) and core.take_due(children, begin + 20.0)


@pytest.mark.parametrize("is_asked", [False, True])
def test_a_plan_without_use_is_dropped(is_asked: bool) -> None:
    core, children = Reinitialisation(Random(1)), make_children(1)
    core.consider(True, 0.0)
    if is_asked:
        assert core.take_due(children, 1.0)
    core.consider(False, 1.0)
    assert core.next_timeout() is None
    assert not core.take_due(children, 60.0) and not core.take_permitted(60.0)
    assert core.count == 0
