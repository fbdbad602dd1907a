"""Costs are counted by event type and by processing path, for a bounded number of types."""

from __future__ import annotations

from typing import Any

from broker.dtd.reference import DtdReference
from broker.errors import NotValid
from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.event.stream import StreamPattern
from broker.matching.contract import Accepted, Refused, TypeCounters
from broker.matching.query.query import parse_query
from broker.matching.type_counters import MAX_TYPES, CountersByType
from tests.matching.conftest import ENGINES, KnownDtds, event


def accepted(type_name: str, version: str = "1.0") -> Accepted:
    event_id = EventId("c", 1, 1, 1)
    header = Header(event_id, "s", type_name, version, SecurityLevel.LOW, Liveness.LIVE)
    return Accepted(header, ())


def figures_of(
    figures_by_type: tuple[TypeCounters, ...], name: str, version: str = "1.0"
) -> TypeCounters:
    return {(each.type, each.version): each for each in figures_by_type}[name, version]


def clock_of(step: float) -> Any:
    now = [0.0]

    def clock() -> float:
        now[0] += step
        return now[0]

    return clock


def test_engine_counts_events_by_type_and_path(make_engine: Any) -> None:
    engine = make_engine(clock=clock_of(0.25), max_run_time=60.0)
    query = parse_query("count(//leg[altitude > 3]) > 0")
    engine.subscribe(StreamPattern.parse(">"), query)
    for number in range(1, 6):
        engine.match([event(sequence_number=number), event(version="2.0")])
    engine.match([event(b"<flight><oops/></flight>"), b"<nothing/>", event(type_name="unheard-of")])
    figures_by_type = engine.type_counters()
    assert [(each.type, each.version) for each in figures_by_type] == [
        ("", ""),
        ("flight", "1.0"),
        ("flight", "2.0"),
    ]
    flights = figures_of(figures_by_type, "flight")
    assert (flights.recognised + flights.parsed, flights.refused) == (5, 1)
    assert figures_of(figures_by_type, "", "").refused == 1
    assert flights.undecided == flights.recognised, "no shape decides how many nodes there are"
    assert flights.undecided_seconds <= flights.recognised_seconds
    assert flights.parsed_seconds >= 0.25 * flights.parsed
    assert flights.shapes == (1 if flights.recognised else 0)
    assert not flights.suspended


def test_recognition_time_is_counted_by_type(dtds: KnownDtds) -> None:
    engine = ENGINES["switch"](dtds, clock=clock_of(1.0))
    for number in range(1, 4):
        engine.match([event(sequence_number=number)])
    assert figures_of(engine.type_counters(), "flight").recognised_seconds == 2.0
    engine.match([event(sequence_number=number) for number in range(4, 100)])
    flights = figures_of(engine.type_counters(), "flight")
    # The clock is read once after all lookups, and once for all documents of a shape.
    assert (flights.recognised, flights.recognised_seconds) == (97, 4.0)
    assert engine.statistics()["recognition_seconds"] == 4.0


def test_types_beyond_the_bound_are_counted_without_a_name() -> None:
    figures = CountersByType()
    for number in range(MAX_TYPES + 10):
        figures.count_parsed(accepted(f"t{number}"), lambda: None, 1.0)
    figures_by_type = figures.snapshot()
    assert len(figures_by_type) == MAX_TYPES + 1
    assert (
        figures_of(figures_by_type, "", "").parsed,
        figures_of(figures_by_type, "", "").parsed_seconds,
    ) == (10, 10.0)
    assert figures_of(figures_by_type, "t0").parsed == 1


def test_refusal_counts_for_its_type_if_known() -> None:
    figures = CountersByType()
    refused = Refused(NotValid("no"))
    figures.count_parsed(refused, lambda: DtdReference("flight", "1.0"), 1.0)
    figures.count_parsed(refused, lambda: None, 2.0)
    assert figures_of(figures.snapshot(), "flight").refused == 1
    assert figures_of(figures.snapshot(), "", "").parsed_seconds == 2.0
