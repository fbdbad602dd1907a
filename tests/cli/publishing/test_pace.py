from __future__ import annotations

import pytest
from lxml import etree

from broker.cli.publishing.pace import (
    AsFastAsPossible,
    OriginalPace,
    Pace,
    Rate,
    TimePath,
    parse_time,
)


def send_times(pace: Pace, times: list[float | None], late: float = 0.0) -> list[float]:
    """Return the virtual send times; each send takes `late` seconds."""
    now, moments = 1000.0, []
    for time in times:
        now += pace.delay(time, now)
        moments.append(round(now - 1000, 6))
        now += late
    return moments


def test_as_fast_as_possible_waits_for_nothing() -> None:
    assert send_times(AsFastAsPossible(), [5.0, 100.0, None]) == [0, 0, 0]


def test_the_original_pace_keeps_the_spacing() -> None:
    assert send_times(OriginalPace(1), [100.0, 101.0, 105.5]) == [0, 1, 5.5]


def test_ten_times_as_fast_is_a_tenth_of_the_spacing() -> None:
    assert send_times(OriginalPace(10), [100.0, 110.0, 155.0]) == [0, 1, 5.5]


def test_a_late_event_does_not_delay_later_ones() -> None:
    assert send_times(OriginalPace(1), [0.0, 1.0, 2.0, 10.0], late=1.5) == [0, 1.5, 3, 10]


def test_events_without_a_time_or_with_an_earlier_one_go_at_once() -> None:
    assert send_times(OriginalPace(1), [100.0, None, 103.0, 101.0, 104.0]) == [0, 0, 3, 3, 4]


def test_another_recording_resets_the_clock() -> None:
    day = 86_400.0
    assert send_times(OriginalPace(1), [10 * day, 10 * day + 5, day, day + 2]) == [0, 5, 5, 7]


def test_a_rate_is_even() -> None:
    assert send_times(Rate(4), [None] * 5) == [0, 0.25, 0.5, 0.75, 1]


def test_a_rate_catches_up_slow_timers() -> None:
    assert send_times(Rate(100), [None] * 4, late=0.012) == [0, 0.012, 0.024, 0.036]
    slow = Rate(10)
    assert slow.delay(None, 0.0) == 0
    assert slow.delay(None, 0.15) == 0
    assert slow.delay(None, 0.16) == pytest.approx(0.04)


def test_a_rate_does_not_catch_up_a_break() -> None:
    rate = Rate(10)
    assert rate.delay(None, 0.0) == 0
    assert rate.delay(None, 60.0) == 0
    assert rate.delay(None, 60.0) == 0
    assert rate.delay(None, 60.0) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:01:00Z", 60.0),
        (" 1970-01-01T00:01:00.5\n", 60.5),
        ("1970-01-01T01:01:00+01:00", 60.0),
        ("1970-01-02", 86_400.0),
        ("14022245", 14 * 86_400.0 + 2 * 3600 + 22 * 60 + 45),
        ("1795000000123", 1_795_000_000.123),
        ("", None),
        ("yesterday", None),
        ("2014-13-45T99:00:00", None),
    ],
)
def test_times_are_read_as_feeds_write_them(text: str, seconds: float | None) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize(
    ("path", "seconds"),
    [
        ("head/time", 60.0),
        ("/feed/head/time", 60.0),
        ("/*/head/time", 60.0),
        ("//time", 60.0),
        (".//head/time", 60.0),
        ("head/@at", 120.0),
        ("@at", 180.0),
        ("/feed/@at", 180.0),
        ("/other/head/time", None),
        ("head/nothing", None),
        ("head/@nothing", None),
    ],
)
def test_a_path_finds_the_time_in_the_payload(path: str, seconds: float | None) -> None:
    root = etree.fromstring(
        '<feed at="1970-01-01T00:03:00Z"><head at="1970-01-01T00:02:00Z">'
        "<time>1970-01-01T00:01:00Z</time></head></feed>"
    )
    assert TimePath(path).find_time(root) == seconds


@pytest.mark.parametrize("path", ["a[", "a/@", "a/@b/c", "a/text()", "count(a)"])
def test_an_invalid_path_is_refused_at_once(path: str) -> None:
    with pytest.raises(ValueError):
        TimePath(path)
