"""The receiving end while parents change the queries by which they select events."""

from __future__ import annotations

from plugins.dcp.receiver import Nack
from tests.plugins.dcp.receiving_child import Child, Delivered

# ------------------------------------------------------------------ one change


def change_query(child: Child, first: str, an: int, epoch: int = 1) -> Delivered:
    """Require a query behind an AN, where a first parent selects by it; the others do not yet."""
    found = child.take(child.core.set_parent(first, an, epoch, 0.0))
    return found + child.take(child.core.require(an, epoch, 0.0))


def test_a_range_of_an_old_query_is_taken_apart_behind_the_required_an() -> None:
    child = Child("on", start=10)
    assert change_query(child, "n", 15) == []
    assert child.give("o", 10, 20, 12, 14, 17, 19) == [(10, 15, [12, 14])]
    assert child.core.current == 15
    # 16 is selected by the new query only. AN 19 follows at once.
    assert child.give("n", 15, 18, 16, 17) == [(15, 18, [16, 17]), (18, 19, [19])]
    assert child.give("n", 18, 20, 19, 20) == [(19, 20, [20])]
    assert child.ans == [12, 14, 16, 17, 19, 20]


def test_held_ranges_of_an_old_query_are_taken_apart() -> None:
    child = Child("on", start=10)
    assert child.give("o", 20, 30, 22, 25, 30) == []
    assert change_query(child, "n", 22) == []
    assert child.give("o", 10, 20, 15) == [(10, 20, [15]), (20, 22, [22])]
    assert child.give("n", 22, 24, 23) == [(22, 24, [23]), (24, 25, [25])]
    assert child.give("n", 24, 29, 25, 28) == [(25, 29, [28]), (29, 30, [30])]


def test_held_ranges_before_the_required_an_lead_on() -> None:
    child = Child("on", start=10)
    child.give("o", 12, 20, 14)
    child.give("o", 20, 30, 25)
    assert change_query(child, "n", 30) == []
    assert child.give("o", 10, 12) == [(10, 12, []), (12, 20, [14]), (20, 30, [25])]


def test_an_old_query_without_new_events_is_not_ahead() -> None:
    child = Child("on", start=10)
    change_query(child, "n", 10)
    assert child.give("o", 10, 30) == []
    child.core.receive_end("o", 40, 0.0)
    assert not child.core.is_incomplete and child.core.current == 10


def test_a_parent_is_trusted_behind_its_own_an() -> None:
    child = Child("on", start=10)
    change_query(child, "n", 10)
    child.core.set_parent("o", 18, 1, 0.0)
    assert child.give("o", 10, 24, 13, 22) == []
    assert child.give("n", 10, 16, 11, 13) == [(10, 16, [11, 13])]
    assert child.give("n", 16, 18, 17) == [(16, 18, [17]), (18, 24, [22])]
    assert child.give("o", 24, 26, 25) == [(24, 26, [25])]
    child.core.receive_end("o", 30, 0.0)
    assert child.core.is_incomplete


def test_events_that_were_taken_apart_are_not_requested() -> None:
    child = Child("on", start=10)
    change_query(child, "n", 10)
    child.give("o", 10, 20, 13, 14, 18)
    (_, nack) = child.nacks_until(0.051)[0]
    assert nack == Nack(10, [(12, 14), (17, 18)])


def test_a_range_that_came_before_its_query_was_stated_is_not_left_to_the_log() -> None:
    child = Child("a", start=20)
    # It is of the new query already, and a range before it was lost.
    assert child.give("a", 25, 30, 27) == []
    assert change_query(child, "a", 20) == []
    (_, nack) = child.nacks_until(0.051)[0]
    assert nack == Nack(20, [(26, 27)])
    assert child.give("a", 20, 25, 22) == [(20, 25, [22])]
    assert child.give("a", 25, 30, 27) == [(25, 30, [27])]
    assert child.core.passed == 0


def test_events_of_a_query_that_no_parent_has_are_left_to_the_log() -> None:
    child = Child("ab", start=10)
    child.core.require(10, 1, 0.0)
    assert child.give("a", 10, 20, 15) == []
    # Parent b may have the query.
    assert child.core.is_incomplete and child.core.passed == 0
    assert child.give("b", 10, 20, 15) == [(14, 15, [15])]
    assert child.core.passed == 1 and not child.core.is_incomplete


def test_epochs_without_changes_are_trusted() -> None:
    child = Child("ab")
    child.core.set_parent("a", 5, 3, 0.0)
    assert child.give("b", 0, 10, 7) == [(0, 10, [7])]
    assert child.give("a", 10, 20, 15) == [(10, 20, [15])]


# ------------------------------------------------------------------ several changes


def test_a_parent_that_skipped_an_epoch_does_not_lead_over_it() -> None:
    """Parent a had epoch 1 up to AN 34, while epoch 2 was required behind 24 and 3 behind 34."""
    child = Child("ab", start=20)
    for parent, an, epoch in (("a", 20, 1), ("b", 20, 1), ("b", 24, 2), ("a", 34, 3)):
        change_query(child, parent, an, epoch)
    assert child.give("a", 20, 24, 22) == [(20, 24, [22])]
    # Epoch 2 selects 28 also.
    assert child.give("a", 24, 37, 30, 36) == []
    assert child.core.current == 24 and child.core.is_incomplete
    assert child.give("b", 24, 34, 28, 30) == [(24, 34, [28, 30]), (34, 37, [36])]
    assert child.ans == [22, 28, 30, 36]


def test_a_range_of_a_skipped_epoch_is_trusted_up_to_its_begin() -> None:
    child = Child("ab", start=20)
    change_query(child, "b", 24, 2)
    change_query(child, "a", 34, 3)
    assert child.give("a", 20, 37, 22, 30, 36) == [(20, 24, [22])]
    assert child.give("b", 20, 34, 22, 28, 30) == [(24, 34, [28, 30]), (34, 37, [36])]


def test_a_newer_epoch_than_the_required_one_is_trusted() -> None:
    child = Child("ab", start=20)
    change_query(child, "b", 24, 1)
    child.core.set_parent("a", 24, 3, 0.0)
    assert child.give("a", 20, 30, 27) == [(20, 24, []), (24, 30, [27])]


def test_an_epoch_that_is_required_again_further_behind_changes_nothing() -> None:
    child = Child("ab", start=20)
    change_query(child, "b", 24, 2)
    change_query(child, "a", 30, 2)
    change_query(child, "a", 32, 1)
    assert child.give("b", 20, 40, 25, 35) == [(20, 24, []), (24, 40, [25, 35])]


def test_a_newer_epoch_counts_from_the_an_of_the_last_one_on() -> None:
    """Parent a reaches epoch 2 before the AN behind which epoch 1 is required."""
    child = Child("ab", start=20)
    change_query(child, "b", 34, 1)
    change_query(child, "a", 30, 2)
    assert child.give("b", 20, 34, 32) == [(20, 34, [32])]
    assert child.give("b", 34, 40, 37) == []
    assert child.give("a", 30, 40, 32, 36, 37) == [(34, 40, [36, 37])]


def test_both_parents_reach_three_epochs_at_different_ans() -> None:
    child = Child("ab", start=0)
    for parent, an, epoch in (("a", 10, 1), ("b", 20, 2), ("a", 30, 3)):
        change_query(child, parent, an, epoch)
    for an, epoch in ((15, 1), (40, 3)):
        child.core.set_parent("b", an, epoch, 0.0)
    # b: epoch 0 up to 20, 2 up to 40. a: epoch 0 up to 10, 1 up to 30. 1 came late for b.
    assert child.give("b", 0, 50, 5, 15, 25, 35, 45) == [(0, 10, [5])]
    assert child.give("a", 0, 50, 5, 12, 15, 35, 45) == [
        *((10, 20, [12, 15]), (20, 30, [25]), (30, 50, [35, 45])),
    ]


# ------------------------------------------------------------------ parents that bring all


def test_a_parent_overlaps_where_it_selects_by_the_required_query() -> None:
    child = Child("ab", start=10)
    assert child.core.overlaps("a") and child.core.overlaps("b")
    change_query(child, "a", 20)
    assert child.core.overlaps("a") and not child.core.overlaps("b")
    child.core.set_parent("b", 25, 1, 0.0)
    # Between 20 and 25 it may not have all events.
    assert not child.core.overlaps("b")
    child.give("a", 10, 25, 22)
    assert child.core.overlaps("b")


def test_a_parent_overlaps_from_its_first_range_on() -> None:
    child = Child("a", start=10)
    child.core.set_parent("c", 15, 0, 0.0)
    assert not child.core.overlaps("c") and not child.core.overlaps("unknown")
    child.give("a", 10, 15, 12)
    assert child.core.overlaps("c")
    assert Child("a", start=None).core.overlaps("a")
