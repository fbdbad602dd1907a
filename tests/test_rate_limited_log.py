"""Troubles that come again and again are told once, then ever less often, with their number."""

from __future__ import annotations

from broker.rate_limited_log import LONGEST_SILENCE, MOST_TEXT, MOST_TROUBLES, Troubles


class Clock:
    now = 0.0


def troubles() -> tuple[Troubles, list[str], Clock]:
    clock, told = Clock(), list[str]()
    return Troubles(told.append, lambda: clock.now), told, clock


def test_a_night_of_one_trouble_is_some_lines_with_a_count() -> None:
    made, told, clock = troubles()
    for second in range(8 * 3600):
        clock.now = float(second)
        made.came("there", "refused", "nobody listens there")
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
                made.came(place, kind, place + kind)
    assert told == ["ax", "ay", "bx", "by"]


def test_another_text_waits_no_longer_than_the_shortest_silence() -> None:
    made, told, clock = troubles()
    for second in range(1000):
        clock.now = float(second)
        made.came("there", "refused", "the key is wrong" if second < 900 else "the name is taken")
    assert "the name is taken (901 times in 15 min)" in told


def test_what_comes_after_all_was_well_is_told_anew() -> None:
    made, told, _ = troubles()
    made.came("there", "refused", "no")
    made.came("elsewhere", "refused", "neither")
    made.over("there")
    made.came("there", "refused", "no")
    made.came("elsewhere", "refused", "neither")
    assert told == ["no", "neither", "no"]


def test_strangers_without_number_do_not_fill_the_log_or_the_memory() -> None:
    made, told, clock = troubles()
    for number in range(10 * MOST_TROUBLES):
        made.came(number, "protocol", "garbage")
    assert len(told) == MOST_TROUBLES
    assert made.untold == 9 * MOST_TROUBLES
    clock.now = LONGEST_SILENCE
    made.came("new", "protocol", "there is room again")
    assert told[-1] == "there is room again"


def test_what_a_peer_says_is_one_short_line() -> None:
    made, told, _ = troubles()
    made.came("there", "refused", "a\n2026-01-01 all is well\x1b[2J" + "x" * 9999)
    assert told[0].startswith("a?2026-01-01 all is well?[2J")
    assert len(told[0]) == MOST_TEXT + 3
