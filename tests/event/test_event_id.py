"""EventIds stay unique for all clocks and restarts (A15, T18)."""

from __future__ import annotations

import random

import pytest

from broker.event.event_id import EventId, EventIdGenerator, next_incarnation


def test_a_million_ids_over_clock_steps_restarts_and_roams_hold_no_duplicate() -> None:
    clock = random.Random(15)
    now_ms = 1_760_000_000_000
    incarnation = 0
    seen: set[tuple[str, int, int]] = set()
    for _ in range(1000):
        incarnation = next_incarnation(incarnation, now_ms * 1000)
        mint = EventIdGenerator("feed", incarnation)
        last_timestamp = 0
        for number in range(1, 1001):
            now_ms += clock.choice((0, 0, 0, 1, 5, -3_600_000, 3_600_000))
            event_id = mint.next_id(now_ms)
            assert event_id.sequence_number == number
            assert event_id.timestamp >= last_timestamp
            last_timestamp = event_id.timestamp
            seen.add((event_id.client_id, event_id.incarnation, event_id.sequence_number))
    assert len(seen) == 1_000_000


def test_a_restart_within_one_microsecond_raises_the_incarnation() -> None:
    first = next_incarnation(0, 1_000)
    assert next_incarnation(first, 1_000) == first + 1


def test_a_clock_set_back_between_processes_does_not_lower_the_incarnation() -> None:
    assert next_incarnation(5_000, 10) == 5_001


def test_an_unused_id_leaves_no_gap() -> None:
    mint = EventIdGenerator("feed", 1)
    mint.next_id(10)
    unused = mint.next_id(20)
    mint.return_id(unused)
    assert mint.next_id(5) == EventId("feed", 20, 2, 1)


def test_only_the_newest_id_can_be_taken_back() -> None:
    mint = EventIdGenerator("feed", 1)
    first = mint.next_id(10)
    mint.next_id(10)
    with pytest.raises(ValueError):
        mint.return_id(first)
