"""The bounded memory of first copies, shared by all sequences of a node."""

from __future__ import annotations

from plugins.dcp.recent_events import FirstCopy, RecentEvents


class Sequence:
    forgotten_upto = 0


def test_equal_ans_of_two_sequences_are_told_apart() -> None:
    recent, one, other = RecentEvents(), Sequence(), Sequence()
    recent.add(one, 7, FirstCopy(1, 0.5, "a"))
    recent.add(other, 7, FirstCopy(2, 0.6, "b"))
    assert recent.find(one, 7) == FirstCopy(1, 0.5, "a")
    assert recent.find(other, 7) == FirstCopy(2, 0.6, "b")
    assert recent.find(one, 8) is None


def test_the_oldest_events_are_forgotten() -> None:
    recent, one = RecentEvents(most=3), Sequence()
    for an in range(1, 6):
        recent.add(one, an, FirstCopy(an, 0.0, "a"))
    assert len(recent) == 3
    assert [an for an in range(1, 6) if recent.find(one, an)] == [3, 4, 5]
    assert one.forgotten_upto == 2
