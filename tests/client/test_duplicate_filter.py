"""The filter of EventIds drops repeated events, and is bounded."""

from __future__ import annotations

from random import Random

import pytest

from broker.client.duplicate_filter import DuplicateFilter
from broker.client.received import ReceivedEvent
from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.event.place import Place


def event(number: int, client: str = "p", incarnation: int = 1, origin: str = "n") -> ReceivedEvent:
    header = Header(
        EventId(client, 1, number, incarnation), "s", "t", "1.0", SecurityLevel.MED, Liveness.LIVE
    )
    return ReceivedEvent(Place(origin, 1, number), header, Liveness.LIVE, b"<e/>")


def test_the_same_event_at_another_place_is_not_new() -> None:
    duplicates = DuplicateFilter()
    assert len(duplicates.drop_duplicates([event(1), event(2)])) == 2
    assert duplicates.drop_duplicates([event(2, origin="m")]) == []
    assert [each.place.offset for each in duplicates.drop_duplicates([event(2), event(3)])] == [3]


def test_another_publisher_or_incarnation_is_new() -> None:
    duplicates = DuplicateFilter()
    assert len(duplicates.drop_duplicates([event(1), event(1, "q"), event(1, incarnation=2)])) == 3
    assert duplicates.drop_duplicates([event(1, "q"), event(1, incarnation=2)]) == []


@pytest.mark.parametrize("seed", range(60))
def test_each_event_is_new_once_in_any_batching(seed: int) -> None:
    random = Random(seed)
    duplicates = DuplicateFilter()
    known: set[EventId] = set()
    publishers = "abc"[: random.randint(1, 3)]
    for _ in range(40):
        first = random.randint(0, 2500)
        client = random.choice(publishers)
        events = [event(first + k, client) for k in range(random.randint(1, 300))]
        if random.random() < 0.5:
            events += [event(random.randint(0, 2500), random.choice(publishers)) for _ in range(20)]
        if random.random() < 0.3:
            random.shuffle(events)
        fresh = [each.event_id for each in duplicates.drop_duplicates(events)]
        expected = [each.event_id for each in events if each.event_id not in known]
        assert fresh == list(dict.fromkeys(expected)), f"seed {seed}"
        known.update(fresh)


def test_windows_that_are_long_unused_are_dropped() -> None:
    duplicates = DuplicateFilter(generation=2)
    for client in "abcd":
        duplicates.drop_duplicates([event(1, client)])
    assert duplicates.drop_duplicates([event(1, "a"), event(1, "d")]) == [], (
        "two generations are there"
    )
    duplicates.drop_duplicates([event(1, "e")])
    assert len(duplicates) <= 4
    for client in "fghij":
        assert len(duplicates.drop_duplicates([event(1, client)])) == 1
        assert duplicates.drop_duplicates([event(1, "e")]) == [], "it is used all the time"
    assert len(duplicates) <= 4
    assert len(duplicates.drop_duplicates([event(1, "b")])) == 1


def test_the_newest_windows_of_a_generation_stay() -> None:
    duplicates = DuplicateFilter(generation=50)
    random = Random(7)
    newest: dict[str, None] = {}
    for _ in range(3000):
        client = f"p{random.randint(0, 120)}"
        fresh = duplicates.drop_duplicates([event(1, client)])
        assert not (fresh and client in list(newest)[-50:])
        newest.pop(client, None)
        newest[client] = None
        assert len(duplicates) <= 100
