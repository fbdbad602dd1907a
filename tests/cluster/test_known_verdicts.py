"""Verdicts of a transport's pass, handed on to the log."""

from __future__ import annotations

from broker.cluster.known_verdicts import KnownVerdicts
from broker.errors import InvalidEvent
from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.matching.contract import Accepted, Refused
from broker.streams.contract import CarriedEvent

HEADER = Header(EventId("p", 1, 1, 1), "s", "t", "1", SecurityLevel.LOW, Liveness.LIVE)
EVENTS = [CarriedEvent((1, an), b"r", b"<e/>") for an in (1, 2, 3)]
VERDICTS = [Accepted(HEADER, (number,)) for number in (1, 2)]
KNOWN = KnownVerdicts.of_pass(7, "0a/s", EVENTS, [*VERDICTS, Refused(InvalidEvent("no"))])


def test_the_verdicts_on_some_of_the_events_are_found() -> None:
    assert KNOWN.find(7, EVENTS[:2]) == VERDICTS
    assert KNOWN.find(7, EVENTS[1:2]) == VERDICTS[1:]


def test_events_are_matched_again_after_a_new_subscription() -> None:
    assert KNOWN.find(8, EVENTS[:2]) is None


def test_refused_events_and_other_documents_are_matched_again() -> None:
    assert KNOWN.find(7, EVENTS) is None
    assert KNOWN.find(7, [EVENTS[0]._replace(document=b"<other/>")]) is None
