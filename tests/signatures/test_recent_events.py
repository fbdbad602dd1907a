"""Two signed events of an origin for one place."""

from __future__ import annotations

import pytest

from broker.event.placeholder import make_placeholder
from broker.signatures.recent_events import MOST_RECENT, RecentEvents
from tests.signatures.placed_event import PlacedEvent

ORIGIN = "8" + 23 * "0"


def event(offset: int, document: bytes = b"<a/>", record: bytes = b"\x99one") -> PlacedEvent:
    return PlacedEvent.of((1, offset), record, document)


def test_another_document_or_header_at_a_place_is_found() -> None:
    recent = RecentEvents()
    assert recent.find_second(ORIGIN, [event(1), event(2)]) == []
    assert recent.find_second(ORIGIN, [event(1), event(2)]) == []
    other = [event(1, b"<b/>"), event(2, record=b"\x99two"), event(3)]
    assert recent.find_second(ORIGIN, other) == [(1, 1), (1, 2)]
    assert recent.find_second(ORIGIN, other[:1]) == [(1, 1)]
    # The first one counts, in one call too.
    assert recent.find_second(ORIGIN, [event(4), event(4, b"<b/>")]) == [(1, 4)]
    assert recent.find_second(ORIGIN, [event(4)]) == []
    assert recent.find_second(ORIGIN, [event(1)]) == []


def test_placeholders_and_other_origins_are_no_second_event() -> None:
    recent = RecentEvents()
    recent.find_second(ORIGIN, [event(1)])
    assert recent.find_second(ORIGIN, [event(1, make_placeholder("too-large", b"<a/>"))]) == []
    assert recent.find_second("9" + ORIGIN[1:], [event(1, b"<b/>")]) == []


@pytest.mark.parametrize("part", [100, 5 * MOST_RECENT])
def test_the_oldest_events_are_forgotten(part: int) -> None:
    recent = RecentEvents()
    events = [event(offset) for offset in range(1, 3 * MOST_RECENT + 1)]
    for start in range(0, len(events), part):
        assert recent.find_second(ORIGIN, events[start : start + part]) == []
        assert len(recent) <= 2 * MOST_RECENT
    oldest_known = events[-MOST_RECENT].mark[1]
    assert recent.find_second(ORIGIN, [event(oldest_known, b"<b/>")]) == [(1, oldest_known)]
    assert recent.find_second(ORIGIN, [event(1, b"<b/>")]) == []
