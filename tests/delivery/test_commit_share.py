from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from broker.delivery.commit_share import RecipientRun, SharedEncodings, encode_runs, take_runs
from broker.delivery.feed import Feed
from broker.log.logged_event import LoggedEvent

FEEDS = [Feed(n, matcher_number=n, is_durable=False, cut=0, cursor=1) for n in (1, 2)]


def event(offset: int, level: int = 0) -> LoggedEvent:
    return LoggedEvent(1, offset, 0, level, b"", b"x" * 36, "n", offset)


@given(st.lists(st.tuples(st.integers(1, 5), st.just(FEEDS)), max_size=6), st.data())
def test_runs_are_removed_from_the_left_and_none_is_lost(
    runs: list[RecipientRun], data: st.DataObject
) -> None:
    left = deque(runs)
    total = sum(count for count, _ in runs)
    first = data.draw(st.integers(0, total))
    taken = take_runs(left, first)
    assert sum(count for count, _ in taken) == first
    rest = take_runs(left, total - first)
    assert sum(count for count, _ in rest) == total - first and not left
    assert all(count > 0 for count, _ in taken + rest)


def test_consecutive_events_with_equal_recipients_are_one_run() -> None:
    one, both = FEEDS[:1], FEEDS
    assert encode_runs([one, list(one), both, one]) == [(2, one), (1, both), (1, one)]
    assert encode_runs([]) == []


def test_a_list_of_events_is_split_and_encoded_once_for_all_sessions() -> None:
    shared = SharedEncodings()
    events = [event(1), event(2, level=2), event(3)]
    portions = shared.split_portions(200, events)
    assert [[e.offset for e in portion.events] for portion in portions] == [[1, 2], [3]]
    assert [portion.level for portion in portions] == [2, 0]
    assert shared.split_portions(200, events) is portions
    assert shared.encode_portion(portions[0]) is shared.encode_portion(portions[0])
    assert len(shared.split_portions(1000, events)) == 1


def test_equal_selections_are_encoded_once() -> None:
    shared = SharedEncodings()
    events = [event(1), event(2), event(3)]
    assert shared.encode_selection([events[0], events[2]]) is shared.encode_selection(
        [events[0], events[2]]
    )
    assert shared.encode_selection(events[:1]) is not shared.encode_selection(events[1:])
