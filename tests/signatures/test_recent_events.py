"""Two signed events of an origin for one place."""

from __future__ import annotations

from broker.event.flow import make_flow
from broker.event.placeholder import make_placeholder
from broker.event.record import with_proof
from broker.signatures.recent_events import MOST_RECENT, RecentEvents
from broker.streams.contract import CarriedEvent
from tests.recovery.test_log_merge import logged

ORIGIN = "8" + 23 * "0"


def event(offset: int, document: bytes = b"<a/>", sequence: int = 1) -> CarriedEvent:
    record = logged(ORIGIN, 1, 1, "p", sequence).record
    return CarriedEvent((1, offset), record, document)


def test_another_document_or_header_at_a_place_is_found() -> None:
    recent = RecentEvents()
    assert recent.find_second(ORIGIN, [event(1), event(2)]) == []
    assert recent.find_second(ORIGIN, [event(1), event(2)]) == []
    other = [event(1, b"<b/>"), event(2, sequence=2), event(3)]
    assert recent.find_second(ORIGIN, other) == [(1, 1), (1, 2)]
    # Also in another flow of the origin, and again.
    assert recent.find_second(make_flow(ORIGIN, "radar.>"), other[:1]) == [(1, 1)]
    # The first one counts.
    assert recent.find_second(ORIGIN, [event(1)]) == []


def test_only_the_signed_parts_of_an_event_count() -> None:
    recent = RecentEvents()
    one = event(1)
    recent.find_second(ORIGIN, [one])
    same = one._replace(record=with_proof(one.with_annotation(b"x").record, b"another"))
    placeholder = one._replace(document=make_placeholder("too-large", b"<x/>"))
    assert recent.find_second(ORIGIN, [same, placeholder]) == []
    assert recent.find_second("9" + ORIGIN[1:], [event(1, b"<b/>")]) == []


def test_logs_without_signatures_are_left_out() -> None:
    recent = RecentEvents()
    for document in (b"<a/>", b"<b/>"):
        assert recent.find_second("0" * 24, [event(1, document)]) == []
    assert not len(recent)


def test_the_oldest_events_are_forgotten() -> None:
    recent = RecentEvents()
    recent.find_second(ORIGIN, [event(1)])
    recent.find_second(ORIGIN, [event(offset) for offset in range(2, MOST_RECENT + 2)])
    assert len(recent) == MOST_RECENT
    assert recent.find_second(ORIGIN, [event(MOST_RECENT + 1, b"<b/>")]) == [(1, MOST_RECENT + 1)]
    assert recent.find_second(ORIGIN, [event(1, b"<b/>")]) == []
