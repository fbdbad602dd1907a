"""Findings: why an event matches a query or not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from broker.matching.contract import IMatcher
from broker.matching.explain.event_finding import MAX_FINDINGS
from broker.matching.explain.explanation import Finding, FoundValue
from broker.matching.query.query import parse_query
from tests.matching.conftest import ENGINES, KnownDtds, event

FLIGHTS = (
    b"<flight><id>UAL1</id>"
    b'<leg status="active"><altitude>290</altitude><speed>500</speed></leg>'
    b'<leg status="planned"><altitude>310</altitude></leg>'
    b'<leg status="active"><altitude>high</altitude></leg>'
    b"</flight>"
)


@pytest.fixture
def find(engine: IMatcher) -> Any:
    def found(query: str, payload: bytes = FLIGHTS) -> Finding:
        told = engine.explain(parse_query(query, {"p": "urn:x"}), event(payload)).event
        assert told is not None and told.finding is not None
        assert told.finding.holds is told.matches
        return told.finding

    return found


def all_of(finding: Finding) -> Iterator[Finding]:
    yield finding
    for part in finding.parts:
        yield from all_of(part)


@pytest.mark.parametrize(
    ("query", "note"),
    [
        ("/flight/flightleg", "the event has no /flight/flightleg, though it has /flight"),
        ("/plane/leg", "the event has no /plane"),
        ("leg/heading", "the event has no leg/heading, though it has leg"),
        ("//heading", "the event has no //heading"),
        ("//leg//heading", "the event has no //leg//heading, though it has //leg"),
        ("//p:link/@href", "the event has no //p:link"),
        ("/Mspaces:Event/Mspaces:Summary", "the event has no /Mspaces:Event/Mspaces:Summary, "),
        ("//leg[4]", "there are 3 //leg, but none at [4]"),
        ("(//leg)[4]/speed", "there are 3 (//leg), but none at [4]"),
        ("//leg[speed][2]", "there is 1 //leg[speed], but none at [2]"),
        ("//leg[@status = 'gone']", "there are 3 //leg, but none with [@status = 'gone']"),
        (
            "//leg[@status = 'active' and altitude > 300]",
            "there are 3 //leg, of which 2 fit so far, but none with [altitude > 300]",
        ),
        (
            "//leg[@status = 'planned'][speed]/altitude",
            "there is 1 //leg[@status = 'planned'], but none with [speed]",
        ),
        ("(//heading | //p:link)[1]", "the event has no //heading; the event has no //p:link"),
        ("/flight/id = 'x' and //heading", "the first condition that fails: /flight/id = 'x'"),
        ("//leg[1] and //heading = 3", "the first condition that fails: //heading = 3"),
    ],
)
def test_the_note_names_the_missing_part(find: Any, query: str, note: str) -> None:
    finding = find(query)
    assert finding.holds is False
    assert finding.note.startswith(note)


def test_each_value_of_a_comparison_has_a_result(find: Any) -> None:
    finding = find("//altitude > 300")
    assert (finding.operator, finding.literal) == (">", "300")
    assert finding.values == (
        FoundValue("/flight/leg[1]/altitude", "290", False),
        FoundValue("/flight/leg[2]/altitude", "310", True),
        FoundValue("/flight/leg[3]/altitude", "high", False),
    )
    assert finding.note == "'high' is not a number"
    finding = find("'active' != //leg/@status")
    assert [(value.path, value.holds) for value in finding.values] == [
        ("/flight/leg[1]/@status", False),
        ("/flight/leg[2]/@status", True),
        ("/flight/leg[3]/@status", False),
    ]


def test_five_values_are_shown_and_the_others_counted(find: Any) -> None:
    legs = b"".join(b"<leg><altitude>%d</altitude></leg>" % n for n in range(12))
    finding = find("//altitude = 11", b"<flight><id>x</id>" + legs + b"</flight>")
    assert (len(finding.values), finding.more, finding.holds) == (5, 7, True)


def test_a_long_value_is_truncated(find: Any) -> None:
    finding = find("/flight/id = 'x'", b"<flight><id>" + b"y" * 10_000 + b"</id></flight>")
    assert finding.values[0].value == "y" * 119 + "…"


def test_the_conditions_of_a_predicate_have_the_path_of_their_node(find: Any) -> None:
    finding = find("//leg[@status = 'active' and altitude > 300]/speed")
    (first, second) = finding.parts
    assert (first.at, second.at) == ("/flight/leg[1]", "/flight/leg[3]")
    assert first.note == "the first condition that fails: altitude > 300"
    status, altitude = first.parts
    assert (status.holds, altitude.holds) == (True, False)
    assert altitude.values == (FoundValue("/flight/leg[1]/altitude", "290", False),)


def test_matching_nodes_are_shown_with_their_conditions(find: Any) -> None:
    finding = find("//leg[altitude > 300]/@status")
    assert finding.values == (FoundValue("/flight/leg[2]/@status", "planned"),)
    (condition,) = finding.parts
    assert condition.at == "/flight/leg[2]"
    assert condition.values == (FoundValue("/flight/leg[2]/altitude", "310", True),)


def test_alternatives_and_negations_are_explained_separately(find: Any) -> None:
    finding = find("not(//speed = 500) or starts-with(/flight/id, 'DAL') or $StreamId = 'x'")
    negation, prefix, stream = finding.parts
    assert [part.holds for part in finding.parts] == [False] * 3
    assert negation.parts[0].values == (FoundValue("/flight/leg[1]/speed", "500", True),)
    assert (prefix.operator, prefix.literal) == ("starts-with", "'DAL'")
    assert prefix.values == (FoundValue("/flight/id", "UAL1", False),)
    assert stream.values == (FoundValue("$StreamId", "asdi.zbw", False),)


def test_computed_values_are_shown(find: Any) -> None:
    assert find("count(//leg) > 3").values == (FoundValue("", "3", False),)
    assert find("string-length(/flight/id)").values == (FoundValue("", "4"),)
    assert find("//leg/altitude = //leg/speed").values[0].path == "/flight/leg[1]/altitude"


def test_the_envelope_is_explained(find: Any) -> None:
    finding = find("/Mspaces:Event/Mspaces:EventId/Mspaces:ClientId = 'me'")
    path = "/Mspaces:Event/Mspaces:EventId/Mspaces:ClientId"
    assert finding.values == (FoundValue(path, "pilot", False),)
    finding = find("/Mspaces:Event/Mspaces:EventType[@Securitylevel = //leg/@status]")
    assert finding.note.startswith("there is 1 /Mspaces:Event/Mspaces:EventType, but none")


def test_attributes_and_texts_are_explained(find: Any) -> None:
    finding = find("//@status[. = 'gone']")
    assert finding.note == "there are 3 //@status, but none with [. = 'gone']"
    assert finding.parts[0].at == "/flight/leg[1]/@status"
    assert finding.parts[0].values[0].value == "active"
    assert find("//text()[. = '310']").values[0].path == "/flight/leg[2]/altitude/text()"


def test_positional_conditions_are_not_split(find: Any) -> None:
    finding = find("//leg[position() = 2 or altitude = 7]/speed")
    assert finding.holds is False
    assert all(part.holds is not None for part in all_of(finding))


def test_a_very_wide_query_is_explained_in_part(find: Any) -> None:
    finding = find(" or ".join(f"id = 'x{number}'" for number in range(200)))
    looked_at = [part for part in finding.parts if part.holds is not None]
    assert len(looked_at) == MAX_FINDINGS - 1
    assert finding.parts[-1].note == "not examined: it would take too long"


def test_the_explanation_stops_at_its_time_limit(dtds: KnownDtds) -> None:
    seconds = iter(range(10**6))
    engine = ENGINES["reference"](dtds, clock=lambda: next(seconds) / 100.0, max_run_time=60.0)
    query = parse_query("//leg[altitude = 1]/speed or //leg[altitude > 300 and @status]")
    told = engine.explain(query, event(FLIGHTS)).event
    assert told is not None and told.finding is not None
    assert told.matches is told.finding.holds is True
    assert "not examined: it would take too long" in {each.note for each in all_of(told.finding)}


def test_parts_in_many_brackets_are_explained(find: Any) -> None:
    deep = "(" * 60 + "//leg" + ")" * 60
    assert find(f"{deep}/altitude > 300").holds is True


def test_lxml_evaluates_parts_that_the_tree_does_not_decide(find: Any) -> None:
    finding = find("lang('en') or id('x') or //namespace::p or //altitude > 300")
    assert [part.holds for part in finding.parts] == [False, False, False, True]
    assert finding.parts[0].note == ""
    assert finding.parts[1].note == "id() is not decided on a shape"
