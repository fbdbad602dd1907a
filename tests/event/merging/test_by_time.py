from __future__ import annotations

import pytest

from broker.event.merging.merger import Merger
from broker.event.merging.settings import Merging
from tests.event.merging.schedules import PAIR, Run, event, linked, run

FP, TZ = "fp", "tz"


def test_an_unlinked_event_does_not_wait() -> None:
    assert run().receive(0.0, event(0, 100), event(1, 50, client="d")) == [0, 1]


@pytest.mark.parametrize("words", [("none", "none"), (None, "arrival"), ("within 1s", "none")])
def test_no_scheme_is_no_merge(words: tuple[str, str]) -> None:
    nothing = linked(*words, FP, TZ)
    came = (event(0, 100, FP, "a", nothing), event(1, 5, TZ, "b", nothing))
    assert run().receive(0.0, *came) == [0, 1]


def test_concurrent_events_go_in_the_declared_order_and_others_by_time() -> None:
    merge = run()
    assert merge.receive(0.0, event(0, 1000, TZ, "radar", PAIR)) == []
    # The flight plan, 200 ms later, precedes the track.
    assert merge.receive(0.1, event(1, 1200, FP, "plans", PAIR)) == []
    assert merge.receive(0.2, event(2, 2000, TZ, "radar", PAIR)) == [1]
    assert merge.receive(0.3, event(3, 2100, FP, "plans", PAIR)) == [0]
    merge.finish(0.4)
    assert merge.items == [1, 0, 3, 2]
    assert not merge.late


def test_the_order_can_name_bundles() -> None:
    merge = run()
    for item, bundle in enumerate(("cancel", "alert", "update")):
        linkage = linked("within 1s", "time", "#alert", "#update", "#cancel", bundles=[(bundle, 1)])
        merge.receive(0.0, event(item, 10 * item, "alerts", f"c{item}", linkage))
    merge.finish(0.0)
    assert merge.items == [1, 2, 0]


def test_a_silent_stream_does_not_block() -> None:
    merge = run(wait=1.0)
    merge.receive(5.0, event(0, 1000, TZ, "radar", PAIR))
    merge.until(100.0)
    # Its own wait, plus the constraint.
    assert merge.given_at == {0: 6.25}
    assert merge.merger.counts.overdue == 1


def test_no_event_waits_beyond_the_longest_time() -> None:
    merge = run(wait=1.0, longest=3.0)
    merge.receive(0.0, event(0, 1000, TZ, "radar", linked("within 1h", "time", FP, TZ)))
    merge.until(100.0)
    assert merge.given_at == {0: 3.0}


def test_a_stream_that_was_silent_for_long_is_not_waited_for() -> None:
    merge = run(wait=5.0, idle=10.0)
    pair = linked("none", "time", FP, TZ)
    merge.receive(0.0, event(0, 1, FP, "plans", pair), event(1, 2, TZ, "radar", pair))
    for second in range(1, 16):
        merge.receive(float(second), event(second + 1, second * 1000, TZ, "radar", pair))
    waited = {second: merge.given_at.get(second + 1, 0) - second for second in range(1, 15)}
    assert [waited[second] for second in range(1, 5)] == [5.0] * 4
    # From then on the next track shows that nothing precedes this one.
    assert [waited[second] for second in range(10, 15)] == [1.0] * 5


def test_an_idle_stream_lets_the_first_lane_go_at_once() -> None:
    pair = linked("none", "time", TZ, FP)
    merge = run(wait=1.0, idle=10.0)
    assert merge.receive(0.0, event(0, 1, TZ, "radar", pair)) == []
    assert merge.receive(20.0, event(1, 20_000, TZ, "radar", pair)) == [1]


def test_any_event_of_a_publisher_carries_the_time_of_all_its_streams() -> None:
    merge = run(wait=50.0)
    merge.receive(0.0, event(0, 900, FP, "plans", PAIR), event(1, 1000, TZ, "radar", PAIR))
    assert merge.receive(0.1, event(2, 2000, TZ, "radar", PAIR)) == []
    # A heartbeat of the plans' publisher, unlinked.
    assert merge.receive(0.2, event(3, 1999, "beats", "plans")) == [3, 1]


def test_a_single_feed_does_not_wait() -> None:
    merge = run()
    linkage = linked("within 1s", "time", TZ)
    assert merge.receive(0.0, event(0, 1000, TZ, "radar", linkage)) == [0]
    assert merge.receive(0.0, event(1, 1100, TZ, "radar", linkage)) == [1]


def test_streams_that_can_not_come_are_not_waited_for() -> None:
    merge = Run(Merger(Merging(), lambda stream: stream == FP))
    assert merge.receive(0.0, event(0, 1000, FP, "plans", PAIR)) == [0]


def test_a_late_event_is_released_at_once_and_marked() -> None:
    merge = run(wait=0.1)
    merge.receive(0.0, event(0, 5000, TZ, "radar", PAIR))
    merge.until(1.0)
    assert merge.receive(2.0, event(1, 4000, FP, "plans", PAIR)) == [1]
    # Concurrent with a released event, and before it in the declared order.
    assert merge.receive(2.1, event(2, 5100, FP, "plans", PAIR)) == [2]
    assert merge.late == {1, 2}
    assert merge.merger.counts.late == 2


def test_another_process_of_a_publisher_may_have_a_slower_clock() -> None:
    merge = run(wait=1.0)
    old = event(0, 90_000, FP, "plans", PAIR)
    new = old._replace(item=1, event_id=old.event_id._replace(timestamp=1000, incarnation=2))
    tracks = (event(2, 1500, TZ, "radar", PAIR), event(3, 95_000, TZ, "radar", PAIR))
    # With the old time the first track would precede a later plan.
    assert merge.receive(0.0, old, new, *tracks) == [1]


def test_a_publisher_that_is_behind_is_waited_for() -> None:
    merge = run(wait=50.0)
    free = linked("none", "time")
    one, two, three = (
        event(n, time, "s", client, free)
        for n, time, client in ((0, 5, "behind"), (1, 20, "ahead"), (2, 8, "mine"))
    )
    assert merge.receive(0.0, one, two, three, event(3, 30, "s", "mine", free)) == [0]
    assert merge.receive(0.0, event(4, 7, "s", "behind", free)) == [4]


def test_the_same_time_stamp_may_come_once_more() -> None:
    merge = run(wait=50.0)
    free = linked("none", "time")
    assert merge.receive(0.0, event(0, 10, "s", "a", free), event(1, 10, "s", "b", free)) == []
    assert merge.receive(0.0, event(2, 10, "s", "a", free)) == []
    merge.receive(0.0, event(3, 11, "s", "a", free), event(4, 11, "s", "b", free))
    assert merge.items == [0, 2, 1]
