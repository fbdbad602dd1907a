from __future__ import annotations

from collections import Counter

import pytest
from lxml import etree

from benchmarks.harness.flights import flight_payload
from benchmarks.routing.engine import ORACLE, Engine, load_dtds
from benchmarks.workloads.flight_records import flight_events, flight_record
from benchmarks.workloads.flights import (
    TABLE_1,
    flight_queries,
    rare_queries,
)
from benchmarks.workloads.mix import HARDER, STANDARD, Mix
from broker.event.event_id import EventIdGenerator
from broker.matching.query.query import parse_query

SAMPLE = 200


def matches(texts: list[str], payloads: list[bytes]) -> Counter[str]:
    roots = [etree.fromstring(payload) for payload in payloads]
    found: Counter[str] = Counter()
    for text in texts:
        xpath = etree.XPath(f"boolean({text})", regexp=False)
        found[text] = sum(bool(xpath(root)) for root in roots)
    return found


def test_records_are_valid_distinct_of_four_forms_and_their_events_about_a_kilobyte() -> None:
    events = list(flight_events(EventIdGenerator("publisher", 1), 200))
    assert Engine(ORACLE, load_dtds()).match(events).matches == 0
    assert len(set(events)) == 200
    assert 900 < sum(map(len, events)) / len(events) < 1_150
    roots = [etree.fromstring(flight_record(number)) for number in range(200)]
    forms = Counter(
        (len(root.findall("flightleg")), root.find(".//lat") is not None) for root in roots
    )
    assert set(forms) == {(1, True), (1, False), (2, True), (2, False)}


@pytest.mark.parametrize("mix", [STANDARD, HARDER])
@pytest.mark.parametrize("count", [1_000, 10_000, 100_000])
def test_there_are_as_many_distinct_queries_as_wanted(count: int, mix: Mix) -> None:
    assert len({text for _, text in flight_queries(count, mix)}) == count


def test_every_kind_of_query_is_accepted_by_the_front_end() -> None:
    for mix in (STANDARD, HARDER):
        found = flight_queries(500, mix)
        assert len({kind for kind, _ in found}) == 6
        for _, text in found:
            parse_query(text)


@pytest.mark.parametrize(
    ("mix", "least", "most"),
    [
        pytest.param(STANDARD, 1.0, 5.0, id="standard: 1 to 5 matches"),
        pytest.param(HARDER, 80.0, 130.0, id="harder: 1% of the queries"),
    ],
)
def test_matches_an_event_are_as_stated_for_ten_thousand_queries(
    mix: Mix, least: float, most: float
) -> None:
    # One query in ten, of all kinds, since they are in random order.
    texts = [text for _, text in flight_queries(10_000, mix)][::10]
    payloads = [flight_record(number) for number in range(SAMPLE)]
    found = 10 * sum(matches(texts, payloads).values()) / SAMPLE
    assert least < found < most


def test_the_decidable_part_of_an_undecidable_query_matches_few_events() -> None:
    necessary = [
        text.partition("] and ")[0] + "]"
        for kind, text in flight_queries(10_000, STANDARD)
        if kind == "undecidable"
    ]
    assert len(necessary) == 100
    payloads = [flight_record(number) for number in range(SAMPLE)]
    # All queries together, so that only these events are parsed.
    assert sum(matches(necessary, payloads).values()) < 0.05 * SAMPLE


def test_rare_queries_match_about_one_event_in_fifty() -> None:
    texts = rare_queries(1_000)
    assert len(set(texts)) == 1_000
    found = matches(texts, [flight_payload(number) for number in range(700)])
    assert 0.005 < sum(found.values()) / 700 < 0.04


def test_the_papers_four_queries_are_accepted_and_select_some() -> None:
    payloads = [flight_record(number) for number in range(1_000)]
    everything, high, airline, north = (matches([text], payloads)[text] for text in TABLE_1)
    assert everything == 1_000
    assert 400 < high < 800
    assert 10 < airline < 70
    # Flights without a position have no place.
    assert north == 888
    for text in TABLE_1:
        parse_query(text)
