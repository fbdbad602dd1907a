from __future__ import annotations

import re
from collections import Counter
from itertools import islice, pairwise

from lxml import etree

from broker.dtd.catalogue import Catalogue, shipped_folder
from broker.dtd.dtd import Dtd
from broker.dtd.reference import DtdReference
from broker.event.envelope import EventType
from broker.event.event_id import EventId
from broker.event.stream import check_stream_name
from broker.event.writer import write_event
from broker.testing.events import ASDI, FLIGHT, MadeEvent, air_traffic, flight_payloads


def assert_valid(kind: EventType, payloads: list[bytes]) -> None:
    reference = DtdReference(kind.name, kind.version)
    catalogue = Catalogue.load(shipped_folder())
    text = catalogue.read(reference.public_id, reference.system_id)
    assert text is not None
    dtd = Dtd.load(reference, text, catalogue.read)
    for payload in payloads:
        event = write_event(EventId("made", 1, 1, 1), "made", kind, payload)
        assert dtd.check(etree.fromstring(event)) is None, payload


def number(pattern: bytes, payload: bytes) -> int:
    found = re.search(pattern, payload)
    assert found is not None
    return int(found[1])


def of_aircraft(events: list[MadeEvent]) -> dict[bytes, list[MadeEvent]]:
    """Group by call sign and computer id."""
    flights: dict[bytes, list[MadeEvent]] = {}
    for event in events:
        found = re.search(rb"<aircraftId>.*</computerId>", event.payload)
        assert found is not None
        flights.setdefault(found[0], []).append(event)
    return flights


def test_flight_records_have_262_bytes_each() -> None:
    assert {len(payload) for payload in flight_payloads(3000)} == {262}


def test_flight_records_are_valid() -> None:
    assert_valid(FLIGHT, list(flight_payloads(1500)))


def test_flight_records_have_ids_in_turn_and_altitudes_in_range() -> None:
    payloads = list(flight_payloads(5000, seed=3))
    ids = [number(rb"<id>UAL(\d+)</id>", payload) for payload in payloads]
    assert ids == [1000 + n % 1000 for n in range(5000)]
    altitudes = {number(rb"<altitude[^>]*>(\d+)<", payload) for payload in payloads}
    assert altitudes == set(range(100, 450))
    assert len(set(payloads)) == 5000


def test_the_same_seed_makes_the_same_events() -> None:
    assert list(flight_payloads(50, 1)) == list(flight_payloads(50, 1))
    assert list(flight_payloads(50, 1)) != list(flight_payloads(50, 2))
    assert list(air_traffic(500, 1)) == list(air_traffic(500, 1))
    assert list(air_traffic(500, 1)) != list(air_traffic(500, 2))


def test_air_traffic_is_valid_and_has_every_kind_of_message() -> None:
    events = list(air_traffic(10_000, seed=1))
    assert len(events) == 10_000
    assert {event.event_type for event in events} == {ASDI}
    assert_valid(ASDI, [event.payload for event in events])
    kinds = Counter(event.stream.rpartition(".")[2] for event in events)
    assert set(kinds) == {"tz", "fz", "af", "dz", "az", "uz", "rz"}
    assert kinds["tz"] > 8000


def test_a_stream_names_the_centre_and_the_kind_of_message() -> None:
    for event in air_traffic(2000):
        check_stream_name(event.stream)
        root = etree.fromstring(event.payload)
        centre = (root.findtext("facility") or "")[1:].lower()
        assert event.stream == f"asdi.{centre}.{root.get('type', '').lower()}"


def test_time_and_sequence_rise() -> None:
    events = list(air_traffic(3000))
    assert all(one.time <= other.time for one, other in pairwise(events))
    sequences = [etree.fromstring(event.payload).findtext("sequence") for event in events]
    assert sequences == [f"{n:04X}" for n in range(3000)]


def test_aircraft_climb_cruise_descend_and_are_handed_on() -> None:
    flights = of_aircraft(list(air_traffic(20_000, seed=4)))
    landed = [
        events
        for events in flights.values()
        if events[0].stream.endswith("fz") and events[-1].stream.endswith("az")
    ]
    assert len(landed) > 20
    handed_on = 0
    for events in landed:
        kinds = [event.stream.rpartition(".")[2] for event in events]
        assert kinds[0] == "fz"
        assert kinds.index("dz") < kinds.index("tz") < kinds.index("az")
        handed_on += kinds.count("uz")
        tracks = [event.payload for event in events if event.stream.endswith("tz")]
        levels = [number(rb"<altitude[^>]*>(\d+)<", track) for track in tracks]
        top = levels.index(max(levels))
        assert levels[0] < max(levels) > levels[-1]
        assert levels[: top + 1] == sorted(levels[: top + 1])
        assert all(abs(one - other) <= 20 for one, other in pairwise(levels))
        centres = [event.stream.split(".")[1] for event in events if event.stream.endswith("tz")]
        # The centre that hands over reports a boundary crossing.
        changes = sum(one != other for one, other in pairwise(centres))
        assert abs(changes - kinds.count("uz")) <= 1
    assert handed_on > 20


def test_the_makers_make_no_more_than_is_taken() -> None:
    assert len(list(islice(flight_payloads(10**9), 5))) == 5
    assert len(list(islice(air_traffic(10**6), 5))) == 5
