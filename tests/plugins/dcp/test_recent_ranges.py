"""The bounded memory of forwarded events."""

from __future__ import annotations

from broker.streams.contract import CarriedEvent
from plugins.dcp.event_range import EventRange, SequenceKey
from plugins.dcp.recent_ranges import Forwarded, RecentRanges

KEY = SequenceKey("log|radar.>", 3)
ONE, OTHER = frozenset({"one"}), frozenset({"other"})


def range_of(previous: int, upto: int, *ans: int) -> EventRange:
    events = [CarriedEvent((KEY.epoch, an), b"", b"") for an in ans]
    return EventRange.of_events(previous, upto, events)


def test_each_event_has_the_links_behind_which_it_was_wanted() -> None:
    recent = RecentRanges()
    recent.add(KEY, range_of(0, 10, 3, 7), [ONE, OTHER], 1.5)
    recent.add(SequenceKey(KEY.flow, 4), range_of(0, 10, 5), [ONE | OTHER], 2.0)
    assert recent.find(KEY, 3) == Forwarded(1.5, ONE)
    assert recent.find(KEY, 7) == Forwarded(1.5, OTHER)
    # In the range, without an event.
    assert recent.find(KEY, 5) is None
    assert recent.find(KEY, 11) is None


def test_a_node_without_children_has_no_links() -> None:
    recent = RecentRanges()
    recent.add(KEY, range_of(0, 2, 1), (), 1.0)
    assert recent.find(KEY, 1) == Forwarded(1.0, frozenset())


def test_the_oldest_ranges_are_forgotten_by_their_events() -> None:
    recent = RecentRanges(most=4)
    for end in range(2, 21, 2):
        recent.add(KEY, range_of(end - 2, end, end - 1, end), [ONE, ONE], 0.0)
        recent.add(KEY, range_of(end, end), [], 0.0)
    assert len(recent) == 4
    assert [an for an in range(1, 21) if recent.find(KEY, an)] == [17, 18, 19, 20]
