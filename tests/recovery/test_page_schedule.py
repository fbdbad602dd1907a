"""The order in which a connection's pages are read."""

from __future__ import annotations

from collections import Counter

from broker.recovery.page_schedule import MAX_IN_FLIGHT, PageSchedule


def anybody(_replay: int) -> bool:
    return True


def asked(*replays: int) -> PageSchedule:
    turns = PageSchedule()
    for replay in replays:
        turns.enqueue(replay)
    return turns


def test_the_number_of_pages_in_flight_is_bounded() -> None:
    turns = asked(*range(100))
    assert turns.start_next(anybody) == list(range(MAX_IN_FLIGHT))
    assert turns.start_next(anybody) == []
    turns.finish_read()
    turns.finish_read()
    assert turns.start_next(anybody) == [MAX_IN_FLIGHT, MAX_IN_FLIGHT + 1]


def test_a_requeued_replay_comes_last() -> None:
    turns = asked(*range(40))
    read: Counter[int] = Counter()
    for replay in turns.start_next(anybody):
        read[replay] += 1
        turns.enqueue(replay)
    for _ in range(400 - MAX_IN_FLIGHT):
        turns.finish_read()
        for replay in turns.start_next(anybody):
            read[replay] += 1
            turns.enqueue(replay)
    assert set(read.values()) == {10}


def test_a_replay_that_needs_no_page_is_skipped() -> None:
    turns = asked(1, 2, 3)
    assert turns.start_next(lambda replay: replay != 2) == [1, 3]


def test_unsent_pages_count_against_the_bound() -> None:
    turns = asked(*range(1_000))
    assert len(turns.start_next(anybody)) == MAX_IN_FLIGHT
    turns.pause()
    for _ in range(MAX_IN_FLIGHT):
        turns.finish_read()
        assert turns.start_next(anybody) == []
    turns.resume()
    assert len(turns.start_next(anybody)) == MAX_IN_FLIGHT
