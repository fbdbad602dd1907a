"""Destinations of events that enter a unit."""

from __future__ import annotations

from itertools import count
from typing import Any, cast

from broker.cluster.ingest_job import IngestJob
from broker.cluster.remote_interest import RemoteInterest
from broker.cluster.traffic.frame_range import Range
from broker.cluster.traffic.received_range import ReceivedRange
from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.event.stream import StreamPattern
from broker.matching.contract import Accepted
from broker.matching.covering.stream_interest import StreamInterest
from broker.matching.query.query import parse_query
from broker.streams.contract import CarriedEvent
from broker.streams.link_key import LinkKey
from tests.cluster.traffic.frames import frame, node

INTEREST = StreamInterest(StreamPattern.parse(">"), parse_query("true()", {}))
HEADER = Header(EventId("p", 1, 1, 1), "s", "t", "1.0", SecurityLevel.MED, Liveness.LIVE)
OWN, OTHER, LINK = node("own"), node("other"), LinkKey("mesh", "child")
#: Number of a subscription of this node.
LOCAL = 100


class Matcher:
    def __init__(self) -> None:
        self._numbers = count(1)

    def subscribe(self, *_: object) -> int:
        return next(self._numbers)


def targets_of(*matches: int) -> frozenset[object]:
    """Return the targets of an event. Match 1 is another node, match 2 a link of a transport."""
    interest = RemoteInterest(cast(Any, Matcher()))
    interest.install(OTHER, "a", INTEREST)
    interest.install(LINK, "1", INTEREST)
    span = Range(OWN, (1, 0), (1, 1))
    event = CarriedEvent((1, 1), b"record", b"<e/>")
    job = IngestJob(ReceivedRange(span, frame([span]), 0), [event], lambda _: None)
    job.verdicts.append(Accepted(HEADER, matches))
    (outgoing,) = interest.events_with_destinations(job, OWN)
    return frozenset(outgoing.destinations)


def test_an_event_goes_to_the_nodes_that_want_it() -> None:
    assert targets_of() == frozenset()
    assert targets_of(1) == {OTHER}
    assert targets_of(1, LOCAL) == {OTHER, OWN}


def test_the_entering_node_gets_what_only_a_link_of_its_transports_wants() -> None:
    """It forwards the event there: the root of a mesh may have no subscription of its own."""
    assert targets_of(2) == {OWN}
    assert targets_of(1, 2) == {OTHER, OWN}
