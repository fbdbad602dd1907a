"""Both engines report events that name a newer version of their type (M29)."""

from __future__ import annotations

import time

import pytest
from twisted.internet.task import Clock

from broker.dtd.cache import CacheLimits, DtdCache
from broker.dtd.catalogue import Catalogue, shipped_folder
from broker.dtd.fetch_hint import FetchHint
from broker.dtd.reference import DtdReference
from broker.event.envelope import EventType
from broker.event.event_id import EventId
from broker.event.stream import StreamPattern
from broker.event.writer import write_event
from broker.matching.contract import Accepted, AcceptedWithLatestVersion, IMatcher
from broker.matching.query.query import parse_query
from broker.matching.reference_matcher import ReferenceMatcher
from broker.matching.switch import Switch

PAYLOAD = b"<flight><id>F</id><flightleg><altitude>%d</altitude></flightleg></flight>"


@pytest.mark.parametrize("engine", [Switch, ReferenceMatcher])
@pytest.mark.parametrize("queries", [[], ["/flight/flightleg/altitude > 3", "count(//*) > 2"]])
def test_each_event_that_names_a_newer_version_is_reported(
    engine: type[Switch] | type[ReferenceMatcher], queries: list[str]
) -> None:
    dtds = DtdCache(Catalogue.load(shipped_folder()), [], CacheLimits(), Clock())
    dtds.lookup(DtdReference("flight", "1.0"), FetchHint())
    matcher: IMatcher = engine(dtds, time.perf_counter)
    for query in queries:
        matcher.subscribe(StreamPattern.parse(">"), parse_query(query))
    names = [number % 5 == 3 for number in range(40)]
    documents = [
        write_event(
            EventId("c", 1, number + 1, 1),
            "s",
            EventType("flight", "1.0", "2.0" if latest else None),
            PAYLOAD % number,
        )
        for number, latest in enumerate(names)
    ]
    # In the first pass they are parsed, then recognised by shape.
    for _ in range(3):
        verdicts = matcher.match(documents)
        assert all(isinstance(verdict, Accepted) for verdict in verdicts)
        assert [type(verdict) is AcceptedWithLatestVersion for verdict in verdicts] == names
    if engine is Switch:
        assert matcher.statistics()["recognised"] >= 40
