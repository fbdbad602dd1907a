"""Whose page is read next."""

from __future__ import annotations

from collections import Counter

from broker.recovery.page_schedule import AT_ONCE, PageTurns


def anybody(_replay: int) -> bool:
    return True


def asked(*replays: int) -> PageTurns:
    turns = PageTurns()
    for replay in replays:
        turns.ask(replay)
    return turns


def test_so_many_are_read_at_once_and_no_more() -> None:
    turns = asked(*range(100))
    assert turns.next(anybody) == list(range(AT_ONCE))
    assert turns.next(anybody) == []
    turns.done()
    turns.done()
    assert turns.next(anybody) == [AT_ONCE, AT_ONCE + 1]


def test_who_asks_again_comes_behind_all_others() -> None:
    turns = asked(*range(40))
    read: Counter[int] = Counter()
    for replay in turns.next(anybody):
        read[replay] += 1
        turns.ask(replay)
    for _ in range(400 - AT_ONCE):
        turns.done()
        for replay in turns.next(anybody):
            read[replay] += 1
            turns.ask(replay)
    assert set(read.values()) == {10}


def test_who_does_not_want_it_any_more_is_passed_over() -> None:
    turns = asked(1, 2, 3)
    assert turns.next(lambda replay: replay != 2) == [1, 3]


def test_what_a_full_connection_does_not_take_bounds_what_is_read() -> None:
    turns = asked(*range(1_000))
    assert len(turns.next(anybody)) == AT_ONCE
    turns.full()
    for _ in range(AT_ONCE):
        turns.done()
        assert turns.next(anybody) == []
    turns.room()
    assert len(turns.next(anybody)) == AT_ONCE
