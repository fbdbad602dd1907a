"""Merging several logs in one order, with any clocks."""

from __future__ import annotations

from random import Random

import pytest

from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.log.logged_event import LoggedEvent, encode_header
from broker.recovery.log_merge import merge_logs


def logged(origin: str, offset: int, arrival: int, publisher: str, number: int) -> LoggedEvent:
    event_id = EventId(publisher, 1, number, 1)
    header = Header(event_id, "s", "t", "1.0", SecurityLevel.LOW, Liveness.LIVE)
    record = encode_header(header)
    return LoggedEvent(1, offset, arrival, 0, record, b"x", origin, 0)


def name(event: LoggedEvent) -> tuple[str, int]:
    return event.origin, event.offset


@pytest.mark.parametrize("seed", range(60))
def test_the_order_of_each_origin_and_each_publisher_holds(seed: int) -> None:
    random = Random(seed)
    origins = ["a", "b", "c"][: random.randrange(1, 4)]
    skew = {origin: random.choice((0, 0, -5_000, 90_000)) for origin in origins}
    logs: dict[str, list[LoggedEvent]] = {origin: [] for origin in origins}
    numbers = dict.fromkeys("pqr", 0)
    published: dict[tuple[str, int], tuple[str, int]] = {}
    for now in range(random.randrange(1, 80)):
        publisher = random.choice("pqr")
        numbers[publisher] += 1
        # Publishers without an answer repeat events.
        for origin in random.sample(
            origins, random.choice((1, 1, 1, 2)) if len(origins) > 1 else 1
        ):
            log = logs[origin]
            event = logged(origin, len(log) + 1, now + skew[origin], publisher, numbers[publisher])
            log.append(event)
            published[name(event)] = publisher, numbers[publisher]
    got = list(merge_logs(logs))
    assert sorted(map(name, got)) == sorted(published), f"seed {seed}"
    for origin, log in logs.items():
        assert [each for each in got if each.origin == origin] == log, f"seed {seed}"
    newest: dict[str, int] = {}
    for event in got:
        publisher, number = published[name(event)]
        # The receiver drops repeated events.
        assert number <= newest.get(publisher, 0) + 1, f"{publisher} at {number} (seed {seed})"
        newest[publisher] = max(number, newest.get(publisher, 0))


def test_other_events_come_by_arrival() -> None:
    logs = {
        "a": [logged("a", 1, 10, "p", 1), logged("a", 2, 30, "p", 2)],
        "b": [logged("b", 1, 20, "q", 1), logged("b", 2, 40, "q", 2)],
    }
    assert [event.arrival for event in merge_logs(logs)] == [10, 20, 30, 40]


def test_contradicting_orders_do_not_block() -> None:
    logs = {
        "a": [logged("a", 1, 1, "p", 2), logged("a", 2, 2, "q", 1)],
        "b": [logged("b", 1, 3, "q", 2), logged("b", 2, 4, "p", 1)],
    }
    assert [name(event) for event in merge_logs(logs)] == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]


def test_after_a_contradiction_the_order_of_a_publisher_holds_again() -> None:
    # Each log has a later event of the publisher before an earlier one.
    logs = {
        "a": [logged("a", 1, 3, "p", 6), logged("a", 2, 11, "p", 3), logged("a", 3, 15, "p", 5)],
        "b": [logged("b", 1, 2, "p", 2), logged("b", 2, 6, "p", 1), logged("b", 3, 10, "p", 4)],
    }
    got = [("b", 1), ("b", 2), ("a", 1), ("a", 2), ("b", 3), ("a", 3)]
    assert [name(event) for event in merge_logs(logs)] == got, "by number 2, 1, 6, 3, 4, 5"
