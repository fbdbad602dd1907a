"""The receiving end that trusts no single parent."""

from __future__ import annotations

from random import Random

import pytest
from pytest import approx

from plugins.dcp.copy_comparison import Omission
from plugins.dcp.nack_timer import NackSettings
from plugins.dcp.receiver import ReceiverSettings
from tests.plugins.dcp.receiving_child import Child
from tests.plugins.dcp.schedule import Schedule
from tests.seeds import seeds

PATIENCE = ReceiverSettings(nack=NackSettings(patience=2.0))


def make_child(parents: str, settings: ReceiverSettings = PATIENCE) -> Child:
    return Child(parents, settings, confirms=True)


def test_an_event_at_the_next_place_waits_for_nobody() -> None:
    child = make_child("ab")
    assert child.give("a", 0, 3, 1, 2, 3) == [(0, 1, [1]), (1, 2, [2]), (2, 3, [3])]
    assert not child.core.is_incomplete


def test_places_without_events_wait_for_all_parents() -> None:
    child = make_child("abc")
    assert child.give("a", 0, 5, 3) == []
    assert child.give("b", 0, 3, 3) == []
    assert child.give("c", 0, 9, 3, 8) == [(0, 2, []), (2, 3, [3])]
    assert child.give("b", 3, 9, 8) == [(3, 5, [])]
    assert child.give("a", 5, 9, 8) == [(5, 7, []), (7, 8, [8]), (8, 9, [])]


def test_an_event_that_one_parent_leaves_out_is_delivered_in_its_place() -> None:
    child = make_child("ab")
    assert child.give("a", 0, 9, 8) == []
    assert child.give("b", 0, 9, 4, 8) == [
        *[(0, 3, []), (3, 4, [4]), (4, 7, []), (7, 8, [8]), (8, 9, [])]
    ]
    assert child.core.copies.omissions == [Omission(4, "b", ["a"], is_late=False)]


def test_a_range_beyond_what_the_parent_has_hides_nothing() -> None:
    child = make_child("ab")
    child.give("a", 0, 1_000)
    assert child.give("b", 0, 5, 5) == [(0, 4, []), (4, 5, [5])]
    assert child.give("b", 5, 7, 7) == [(5, 6, []), (6, 7, [7])]
    assert child.core.current == 7 and child.nacks_until(10.0) == []


def test_one_parent_alone_passes_no_place() -> None:
    """The range before its event is left to the log at once, as nobody else may confirm it."""
    child = make_child("a")
    assert child.give("a", 0, 9, 4) == [(3, 4, [4])]
    assert child.core.current == 4 and child.core.passed == 1
    assert child.give("a", 9, 12, 10) == [(9, 10, [10])]


def test_a_lost_statement_is_requested() -> None:
    child = make_child("ab")
    child.give("a", 0, 9, 8, now=1.0)
    child.give("b", 9, 12, 12, now=1.0)
    assert child.nacks_until(1.006)[0][0] == approx(1.005)
    assert child.give("b", 0, 9, 8, now=1.02, is_repeated=True)[-1] == (8, 9, [])
    assert child.ans == [8]


def test_a_parent_that_withholds_its_statements_delays_one_range() -> None:
    child = make_child("ab")
    child.give("a", 0, 9, 8, now=1.0)
    child.nacks_until(4.0)
    # Without a second statement the log has the range before the event.
    assert child.spans == [(7, 8)] and child.paths["b"].withheld == 1
    assert child.give("a", 9, 20, 15, now=4.0) == [(14, 15, [15])]
    # It counts again as soon as it has come so far.
    assert child.give("b", 0, 30, 30, now=5.0) == [(15, 20, [])]
    assert child.give("a", 20, 30, 30, now=5.0) == [(20, 29, []), (29, 30, [30])]


def test_a_parent_that_selects_by_an_older_query_confirms_nothing() -> None:
    child = make_child("ab")
    child.core.set_parent("a", 10, 1, 0.0)
    child.core.require(10, 1, 0.0)
    child.give("a", 0, 20, 15)
    assert child.give("b", 0, 20, 5) == [*[(0, 4, []), (4, 5, [5]), (5, 10, []), (14, 15, [15])]]
    # What only the first one has selected by the new query is left to the log.
    assert child.core.passed == 1


def test_events_that_the_older_query_does_not_select_are_no_omission() -> None:
    child = make_child("ab")
    child.core.set_parent("a", 0, 1, 0.0)
    child.give("b", 0, 9)
    child.give("a", 0, 9, 4)
    assert child.core.copies.omissions == []


@pytest.mark.parametrize("changes", [0, 2])
@pytest.mark.parametrize("seed", seeds(60, 300))
def test_a_liar_hides_no_event_while_another_parent_is_honest(seed: int, changes: int) -> None:
    names = "abcd"[: Random(seed).randint(2, 4)]
    schedule = Schedule(seed, names=names, changes=changes, liar=names[-1])
    schedule.run(30.0)
    child = schedule.child
    # Places without events that one parent alone has stated may be left at the end.
    assert (child.core.current or 0) >= max(schedule.promised)
    assert child.ans == sorted(set(child.ans))
    missing = schedule.promised - {*child.ans}
    hidden = [an for an in missing if any(a < an <= upto for a, upto in child.spans)]
    assert hidden == []
