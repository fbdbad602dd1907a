"""Repeated messages are written once, then ever less often, with their count."""

from __future__ import annotations

from broker.rate_limited_log import MAX_ENTRIES, MAX_INTERVAL, MAX_TEXT, RateLimitedLog


class Clock:
    now = 0.0


def make_log() -> tuple[RateLimitedLog, list[str], Clock]:
    clock, lines = Clock(), list[str]()
    return RateLimitedLog(lines.append, lambda: clock.now), lines, clock


def test_a_night_of_one_message_is_some_lines_with_a_count() -> None:
    log, lines, clock = make_log()
    for second in range(8 * 3600):
        clock.now = float(second)
        log.report("there", "refused", "nobody listens there")
    assert len(lines) == 13
    assert lines[:3] == [
        "nobody listens there",
        "nobody listens there (61 times in 60 s)",
        "nobody listens there (181 times in 3 min)",
    ]


def test_places_and_kinds_have_separate_entries() -> None:
    log, lines, _ = make_log()
    for _ in range(3):
        for place in "ab":
            for kind in "xy":
                log.report(place, kind, place + kind)
    assert lines == ["ax", "ay", "bx", "by"]


def test_a_changed_text_waits_for_the_shortest_interval_only() -> None:
    log, lines, clock = make_log()
    for second in range(1000):
        clock.now = float(second)
        log.report("there", "refused", "the key is wrong" if second < 900 else "the name is taken")
    assert "the name is taken (901 times in 15 min)" in lines


def test_messages_after_a_clear_are_written_at_once() -> None:
    log, lines, _ = make_log()
    log.report("there", "refused", "no")
    log.report("elsewhere", "refused", "neither")
    log.clear("there")
    log.report("there", "refused", "no")
    log.report("elsewhere", "refused", "neither")
    assert lines == ["no", "neither", "no"]


def test_many_places_do_not_fill_the_log_or_the_memory() -> None:
    log, lines, clock = make_log()
    for number in range(10 * MAX_ENTRIES):
        log.report(number, "protocol", "garbage")
    assert len(lines) == MAX_ENTRIES
    assert log.suppressed == 9 * MAX_ENTRIES
    clock.now = MAX_INTERVAL
    log.report("new", "protocol", "there is room again")
    assert lines[-1] == "there is room again"


def test_a_message_from_a_peer_is_one_short_line() -> None:
    log, lines, _ = make_log()
    log.report("there", "refused", "a\n2026-01-01 all is well\x1b[2J" + "x" * 9999)
    assert lines[0].startswith("a?2026-01-01 all is well?[2J")
    assert len(lines[0]) == MAX_TEXT + 3
