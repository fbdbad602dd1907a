from __future__ import annotations

from twisted.internet.task import Clock

from benchmarks.harness.flights import (
    AIRLINES,
    ALTITUDES,
    FLEET,
    FLIGHT,
    HIGH,
    PAYLOAD_BYTES,
    flight_documents,
    flight_id,
    flight_payload,
    is_high,
    report_of,
)
from broker.dtd.cache import CacheLimits, DtdCache
from broker.dtd.catalogue import Catalogue, shipped_folder
from broker.dtd.fetch_hint import FetchHint
from broker.dtd.reference import DtdReference
from broker.event.event_id import EventIdGenerator
from broker.event.stream import StreamPattern
from broker.matching.contract import Accepted
from broker.matching.query.query import parse_query
from broker.matching.reference_matcher import ReferenceMatcher


def test_payloads_have_the_length_that_the_peers_were_measured_with_and_differ() -> None:
    payloads = {flight_payload(number) for number in range(50_000)}
    assert len(payloads) == 50_000
    assert {len(payload) for payload in payloads} == {PAYLOAD_BYTES}
    assert len(flight_payload(1, b"%024d" % 7)) == PAYLOAD_BYTES


def test_every_aircraft_of_the_fleet_has_its_own_id() -> None:
    ids = {flight_id(aircraft) for aircraft in range(FLEET)}
    assert len(ids) == FLEET
    assert {name[:3] for name in ids} == set(AIRLINES)
    assert all(len(name) == 7 and name[3:].isdigit() and name[3] != "0" for name in ids)


def test_reports_are_evenly_spread_and_independent() -> None:
    reports = [report_of(number) for number in range(20_000)]
    assert 11_000 < len({each.flight_id for each in reports}) < FLEET
    low = [each for each in reports if each.altitude < ALTITUDES[len(ALTITUDES) // 4]]
    assert 0.23 < len(low) / len(reports) < 0.27
    for figure in (lambda each: each.speed, lambda each: each.latitude[0]):
        mean, of_low = (sum(map(figure, some)) / len(some) for some in (reports, low))
        assert abs(mean - of_low) < 0.02 * mean


def test_events_are_valid_their_ids_follow_and_the_query_matches_those_it_should() -> None:
    dtds = DtdCache(Catalogue.load(shipped_folder()), [], CacheLimits(), Clock())
    dtds.lookup(DtdReference(FLIGHT.name, FLIGHT.version), FetchHint(""))
    matcher = ReferenceMatcher(dtds, clock=lambda: 0.0)
    number = matcher.subscribe(StreamPattern.parse(">"), parse_query(HIGH, {}))
    verdicts = matcher.match(list(flight_documents(EventIdGenerator("publisher", 3), 1000)))
    accepted = [verdict for verdict in verdicts if isinstance(verdict, Accepted)]
    ids = [verdict.header.event_id for verdict in accepted]
    assert [each.sequence_number for each in ids] == list(range(1, 1001))
    expected = [(number,) if is_high(index) else () for index in range(1000)]
    assert [verdict.subscriptions for verdict in accepted] == expected
    assert 400 < sum(map(len, expected)) < 600
