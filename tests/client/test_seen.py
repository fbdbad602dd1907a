"""The memory of EventIds: what comes again is dropped, and it is bounded."""

from __future__ import annotations

from random import Random

import pytest

from broker.client.received import ReceivedEvent
from broker.client.seen import Seen
from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.identity import EventId
from broker.event.place import Place


def event(number: int, client: str = "p", incarnation: int = 1, origin: str = "n") -> ReceivedEvent:
    header = Header(
        EventId(client, 1, number, incarnation), "s", "t", "1.0", SecurityLevel.MED, Liveness.LIVE
    )
    return ReceivedEvent(Place(origin, 1, number), header, Liveness.LIVE, b"<e/>")


def test_the_same_event_at_another_place_is_not_new() -> None:
    seen = Seen()
    assert len(seen.fresh([event(1), event(2)])) == 2
    assert seen.fresh([event(2, origin="m")]) == []
    assert [each.place.offset for each in seen.fresh([event(2), event(3)])] == [3]


def test_another_publisher_or_incarnation_is_told_apart() -> None:
    seen = Seen()
    assert len(seen.fresh([event(1), event(1, "q"), event(1, incarnation=2)])) == 3
    assert seen.fresh([event(1, "q"), event(1, incarnation=2)]) == []


@pytest.mark.parametrize("seed", range(60))
def test_each_event_is_new_once_however_it_is_cut_and_repeated(seed: int) -> None:
    random = Random(seed)
    seen = Seen()
    had: set[EventId] = set()
    publishers = "abc"[: random.randint(1, 3)]
    for _ in range(40):
        first = random.randint(0, 2500)
        client = random.choice(publishers)
        events = [event(first + k, client) for k in range(random.randint(1, 300))]
        if random.random() < 0.5:
            events += [event(random.randint(0, 2500), random.choice(publishers)) for _ in range(20)]
        if random.random() < 0.3:
            random.shuffle(events)
        fresh = [each.event_id for each in seen.fresh(events)]
        expected = [each.event_id for each in events if each.event_id not in had]
        assert fresh == list(dict.fromkeys(expected)), f"seed {seed}"
        had.update(fresh)


def test_the_window_that_was_used_longest_ago_goes_first() -> None:
    seen = Seen(most_windows=2)
    seen.fresh([event(1, "a")])
    seen.fresh([event(1, "b")])
    assert seen.fresh([event(1, "a")]) == []
    seen.fresh([event(1, "c")])
    assert len(seen) == 2
    assert seen.fresh([event(1, "a")]) == [], "it was used after that of b"
    assert len(seen.fresh([event(1, "b")])) == 1
