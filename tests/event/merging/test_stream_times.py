from __future__ import annotations

from tests.event.merging.schedules import PAIR, Event, Run, event, run

FP, TZ = "fp", "tz"


def plan(item: int, time: int) -> Event:
    return event(item, time, FP, "desk", PAIR, origin="o1")


def track(item: int, time: int) -> Event:
    return event(item, time, TZ, "radar", PAIR, origin="o2")


def both_heard() -> Run:
    """With known publishers, and without held events."""
    merge = run(wait=20.0, delay=0.5)
    merge.receive(0.0, plan(0, 1_000), track(1, 1_001))
    merge.until(25.0)
    assert merge.items == [0, 1]
    return merge


def test_a_silent_publisher_is_not_waited_for_behind_its_origins_stream_time() -> None:
    merge = both_heard()
    assert merge.receive(25.0, track(2, 26_000)) == []
    # An event may be committed 0.5 s after its TimeStamp, and the burst ends at 26,250 ms.
    assert merge.passed(26.0, o1=26_750, o2=26_750) == []
    assert merge.passed(27.0, o1=26_751, o2=26_751) == [2]
    assert not merge.late


def test_an_origin_without_a_stream_time_is_waited_for() -> None:
    merge = both_heard()
    merge.receive(25.0, track(2, 26_000))
    assert merge.passed(27.0, o1=0, o2=99_000) == []
    assert merge.passed(28.0, o2=99_000) == []
    merge.until(60.0)
    assert merge.given_at[2] == 45.25


def test_a_publisher_counts_for_the_origin_of_its_newest_event() -> None:
    merge = both_heard()
    merge.receive(25.0, event(2, 25_000, "other", "desk", origin="o3"))
    merge.receive(25.0, track(3, 26_000))
    assert merge.passed(26.0, o1=99_000, o2=99_000, o3=0) == []
    assert merge.passed(27.0, o1=0, o2=99_000, o3=99_000) == [3]


def test_a_stream_without_events_may_come_from_any_origin() -> None:
    merge = run(wait=20.0, delay=0.5)
    assert merge.receive(0.0, track(0, 1_000)) == []
    assert merge.passed(1.0, o1=0, o2=5_000) == []
    assert merge.passed(2.0, o1=1_500, o2=5_000) == []
    assert merge.passed(3.0, o1=1_751, o2=5_000) == [0]


def test_a_falling_stream_time_counts() -> None:
    merge = both_heard()
    merge.passed(25.0, o1=99_000, o2=99_000)
    merge.passed(26.0, o1=20_000, o2=20_000)
    assert merge.receive(26.0, track(2, 26_000)) == []


def test_an_event_before_a_passed_stream_time_is_released_late() -> None:
    merge = both_heard()
    merge.receive(25.0, track(2, 26_000))
    assert merge.passed(26.0, o1=99_000, o2=99_000) == [2]
    assert merge.receive(27.0, plan(3, 25_900)) == [3]
    assert merge.late == {3}
