"""Troubles that come again and again are told once, then ever less often, with their number."""

from __future__ import annotations

from broker.rate_limited_log import MAX_ENTRIES, MAX_INTERVAL, MAX_TEXT, RateLimitedLog


class Clock:
    now = 0.0


def troubles() -> tuple[RateLimitedLog, list[str], Clock]:
    clock, told = Clock(), list[str]()
    return RateLimitedLog(told.append, lambda: clock.now), told, clock


def test_a_night_of_one_trouble_is_some_lines_with_a_count() -> None:
    made, told, clock = troubles()
    for second in range(8 * 3600):
        clock.now = float(second)
        made.report("there", "refused", "nobody listens there")
    assert len(told) == 13
    assert told[:3] == [
        "nobody listens there",
        "nobody listens there (61 times in 60 s)",
        "nobody listens there (181 times in 3 min)",
    ]


def test_places_and_kinds_are_told_apart() -> None:
    made, told, _ = troubles()
    for _ in range(3):
        for place in "ab":
            for kind in "xy":
                made.report(place, kind, place + kind)
    assert told == ["ax", "ay", "bx", "by"]


def test_another_text_waits_no_longer_than_the_shortest_silence() -> None:
    made, told, clock = troubles()
    for second in range(1000):
        clock.now = float(second)
        made.report("there", "refused", "the key is wrong" if second < 900 else "the name is taken")
    assert "the name is taken (901 times in 15 min)" in told


def test_what_comes_after_all_was_well_is_told_anew() -> None:
    made, told, _ = troubles()
    made.report("there", "refused", "no")
    made.report("elsewhere", "refused", "neither")
    made.clear("there")
    made.report("there", "refused", "no")
    made.report("elsewhere", "refused", "neither")
    assert told == ["no", "neither", "no"]


def test_strangers_without_number_do_not_fill_the_log_or_the_memory() -> None:
    made, told, clock = troubles()
    for number in range(10 * MAX_ENTRIES):
        made.report(number, "protocol", "garbage")
    assert len(told) == MAX_ENTRIES
    assert made.suppressed == 9 * MAX_ENTRIES
    clock.now = MAX_INTERVAL
    made.report("new", "protocol", "there is room again")
    assert told[-1] == "there is room again"


def test_what_a_peer_says_is_one_short_line() -> None:
    made, told, _ = troubles()
    made.report("there", "refused", "a\n2026-01-01 all is well\x1b[2J" + "x" * 9999)
    assert told[0].startswith("a?2026-01-01 all is well?[2J")
    assert len(told[0]) == MAX_TEXT + 3
