"""The receiving end of one sequence: ranges left to the log, disagreements and bounds."""

from __future__ import annotations

from plugins.dcp.parent_path import ParentPath
from plugins.dcp.receiver import MOST_JUMP, ReceiverSettings
from plugins.dcp.recent_events import Disagreement
from tests.plugins.dcp.receiving_child import Child, make_range

# ------------------------------------------------------------------ left to the log


def test_a_range_that_no_parent_has_is_passed() -> None:
    child = Child("ab")
    child.give("a", 10, 20, 12, 15)
    child.give("b", 14, 18, 15)
    assert child.core.receive_unavailable("a", 0, 14, 0.0) == []
    assert child.core.receive_unavailable("b", 0, 6, 0.0) == []
    # The next range goes on with its own previous AN.
    assert child.take(child.core.receive_unavailable("b", 6, 14, 0.0)) == [(10, 20, [12, 15])]
    assert not child.core.is_incomplete and child.core.passed > 0
    assert child.give("a", 0, 10, 5) == []


def test_many_unavailable_ranges_stop_no_progress() -> None:
    child, count = Child("ab"), 200
    missing = [(10 * number, 10 * number + 5) for number in range(1, count + 1)]
    for after, upto in missing:
        for parent in "ab":
            child.core.receive_unavailable(parent, after, upto, 0.0)
            child.give(parent, upto, upto + 5, upto + 1)
    # All of them wait for this one.
    child.give("a", 0, 10, 5)
    answers = 0
    while child.core.is_incomplete:
        answers += 1
        ((at, nack),) = child.nacks_until(child.core.next_timeout() or 0.0)
        for parent in "ab":
            for after, upto in missing:
                if upto > nack.current:
                    child.take(child.core.receive_unavailable(parent, after, upto, at))
    assert child.ans == [5, *(upto + 1 for _, upto in missing)]
    assert child.core.passed == count and answers <= 4


def test_a_range_that_is_stated_as_unavailable_is_not_lost() -> None:
    child = Child("ab")
    for parent in "ab":
        child.give(parent, 0, 10, 5)
        child.take(child.core.receive_unavailable(parent, 10, 20, 0.0))
        child.give(parent, 20, 30, 25)
        # The statement comes late: the range counts as lost.
        child.give(parent, 40, 50, 45)
        child.take(child.core.receive_unavailable(parent, 30, 40, 0.0))
    assert child.ans == [5, 25, 45] and child.core.passed == 2
    assert [path.lost for path in child.paths.values()] == [1, 1]


def test_parents_that_began_later_or_left_can_not_send_a_range() -> None:
    child = Child("ab")
    child.paths["c"] = ParentPath("c")
    child.core.set_parent("c", 10, 0, 0.0)
    child.give("a", 10, 20, 15)
    assert child.core.receive_unavailable("a", 0, 10, 0.0) == []
    del child.paths["b"]
    assert child.take(child.core.remove_parent("b", 0.0)) == [(10, 20, [15])]


def test_the_end_of_the_patience_lets_the_next_range_go_on() -> None:
    child = Child("ab", ReceiverSettings())
    child.give("a", 10, 20, 15, now=1.0)
    child.give("a", 30, 40, 35, now=2.5)
    assert child.nacks_until(2.9) and child.core.current == 0
    assert child.core.handle_timeout(2.99)[0] == []
    ranges, nack = child.core.handle_timeout(3.0)
    assert (child.take(ranges), nack) == ([(10, 20, [15])], None)
    # The patience with the second missing range began when the range behind it came.
    assert child.core.handle_timeout(4.4)[0] == []
    assert child.take(child.core.handle_timeout(4.5)[0]) == [(30, 40, [35])]
    assert child.core.passed == 2 and child.core.next_timeout() is None


# ------------------------------------------------------------------ disagreements and bounds


def test_different_documents_with_one_an_are_a_disagreement() -> None:
    child = Child("abc")
    child.give("a", 0, 10, 5, document=b"first")
    assert child.give("b", 0, 12, 5, document=b"other") == [(10, 12, [])]
    child.give("c", 0, 10, 5, document=b"first")
    assert child.core.copies.disagreements == [Disagreement(5, "a", "b")]
    # Also of events that wait.
    child.give("c", 20, 30, 25, document=b"x")
    child.give("b", 20, 30, 25, document=b"y")
    child.give("a", 10, 20)
    assert child.core.copies.disagreements[1:] == [Disagreement(25, "c", "b")]
    assert [each.document for each in child.events] == [b"first", b"x"]


def test_the_first_document_is_delivered_although_another_range_begins_earlier() -> None:
    child = Child("ab")
    child.give("a", 10, 20, 15, document=b"first")
    assert child.give("b", 0, 20, 5, 15, document=b"other") == [(0, 20, [5, 15])]
    assert [each.document for each in child.events] == [b"other", b"first"]
    assert child.core.copies.disagreements == [Disagreement(15, "a", "b")]


def test_a_held_range_of_one_document_is_not_replaced_by_an_earlier_begin() -> None:
    child = Child("abc")
    child.give("a", 10, 20, 15, document=b"first")
    child.give("b", 5, 25, 15, 22, document=b"other")
    child.give("c", 0, 7)
    assert [each.document for each in child.events] == [b"first", b"other"]
    assert child.core.copies.disagreements == [Disagreement(15, "a", "b")]


def test_held_bytes_are_bounded() -> None:
    size = make_range(10, 20, [15]).size
    child = Child("a", ReceiverSettings(held_bytes=3 * size))
    for begin in (50, 30, 10, 40, 20):
        child.give("a", begin, begin + 10, begin + 5)
    # The furthest were dropped.
    assert child.core.dropped == 2
    child.give("a", 0, 10, 5)
    assert child.ans == [5, 15, 25, 35] and child.core.current == 40
    assert child.core.is_incomplete


def test_a_range_in_order_needs_no_room() -> None:
    child = Child("a", ReceiverSettings(held_bytes=1))
    assert child.give("a", 0, 10, 5) == [(0, 10, [5])]
    assert child.give("a", 5, 20, 7, 15) == [(10, 20, [15])]
    assert child.core.dropped == 0
    assert child.give("a", 30, 40, 35) == []
    assert child.core.dropped == 1


def test_ranges_too_far_ahead_are_dropped() -> None:
    child = Child("a")
    far = MOST_JUMP + 1
    assert child.give("a", 0, far, 7) == [] == child.give("a", far - 1, far, far)
    assert child.core.dropped == 2
    child.core.receive_end("a", far, 0.0)
    child.core.receive_unavailable("a", 0, far, 0.0)
    assert not child.core.is_incomplete
    assert child.give("a", 0, MOST_JUMP, 7) == [(0, MOST_JUMP, [7])]
