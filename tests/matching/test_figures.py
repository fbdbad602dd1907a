"""What each type has cost is counted by type, by how events were read, and within a bound."""

from __future__ import annotations

from typing import Any

from broker.dtd.reference import DtdReference
from broker.errors import NotValid
from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.event.stream import StreamPattern
from broker.matching.contract import Accepted, Refused, TypeFigures
from broker.matching.figures import MAX_TYPES, Figures
from broker.matching.query.query import parse_query
from tests.matching.conftest import ENGINES, KnownDtds, event


def accepted(type_name: str, version: str = "1.0") -> Accepted:
    event_id = EventId("c", 1, 1, 1)
    header = Header(event_id, "s", type_name, version, SecurityLevel.LOW, Liveness.LIVE)
    return Accepted(header, ())


def named(told: tuple[TypeFigures, ...], name: str, version: str = "1.0") -> TypeFigures:
    return {(each.type, each.version): each for each in told}[name, version]


def clock_of(step: float) -> Any:
    now = [0.0]

    def clock() -> float:
        now[0] += step
        return now[0]

    return clock


def test_an_engine_tells_how_the_events_of_each_type_were_read(make_engine: Any) -> None:
    engine = make_engine(clock=clock_of(0.25), max_run_time=60.0)
    query = parse_query("count(//leg[altitude > 3]) > 0")
    engine.subscribe(StreamPattern.parse(">"), query)
    for number in range(1, 6):
        engine.match([event(sequence_number=number), event(version="2.0")])
    engine.match([event(b"<flight><oops/></flight>"), b"<nothing/>", event(type_name="unheard-of")])
    told = engine.types()
    assert [(each.type, each.version) for each in told] == [
        ("", ""),
        ("flight", "1.0"),
        ("flight", "2.0"),
    ]
    flights = named(told, "flight")
    assert (flights.recognised + flights.parsed, flights.refused) == (5, 1)
    assert named(told, "", "").refused == 1
    assert flights.undecided == flights.recognised, "no shape decides how many nodes there are"
    assert flights.undecided_seconds <= flights.recognised_seconds
    assert flights.parsed_seconds >= 0.25 * flights.parsed
    assert flights.shapes == (1 if flights.recognised else 0)
    assert not flights.suspended


def test_a_switch_spends_its_time_where_it_says(dtds: KnownDtds) -> None:
    engine = ENGINES["switch"](dtds, clock=clock_of(1.0))
    for number in range(1, 4):
        engine.match([event(sequence_number=number)])
    assert named(engine.types(), "flight").recognised_seconds == 2.0
    engine.match([event(sequence_number=number) for number in range(4, 100)])
    flights = named(engine.types(), "flight")
    # The clock is looked at once when all shapes were looked up, and once for all of a shape.
    assert (flights.recognised, flights.recognised_seconds) == (97, 4.0)
    assert engine.statistics()["recognition_seconds"] == 4.0


def test_types_beyond_the_bound_are_counted_without_a_name() -> None:
    figures = Figures()
    for number in range(MAX_TYPES + 10):
        figures.parsed(accepted(f"t{number}"), lambda: None, 1.0)
    told = figures.told()
    assert len(told) == MAX_TYPES + 1
    assert (named(told, "", "").parsed, named(told, "", "").parsed_seconds) == (10, 10.0)
    assert named(told, "t0").parsed == 1


def test_a_refusal_counts_for_its_type_if_that_is_known() -> None:
    figures = Figures()
    refused = Refused(NotValid("no"))
    figures.parsed(refused, lambda: DtdReference("flight", "1.0"), 1.0)
    figures.parsed(refused, lambda: None, 2.0)
    assert named(figures.told(), "flight").refused == 1
    assert named(figures.told(), "", "").parsed_seconds == 2.0
