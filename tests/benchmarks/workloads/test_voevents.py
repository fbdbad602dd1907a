from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from lxml import etree

from benchmarks.routing.engine import ORACLE, Engine, load_dtds
from benchmarks.workloads import voevent_packets
from benchmarks.workloads.mix import HARDER, STANDARD, Mix
from benchmarks.workloads.voevent_packets import (
    NAMESPACES,
    NoData,
    Sample,
    load_packets,
    voevent_events,
)
from benchmarks.workloads.voevents import voevent_queries
from broker.event.event_id import EventIdGenerator
from broker.matching.query.query import parse_query
from tests.seeds import further_cases


@pytest.fixture(scope="module")
def real(shared_data: Path) -> list[bytes]:
    return load_packets()


@pytest.fixture(scope="module")
def sample(real: list[bytes]) -> Sample:
    return Sample(real)


def test_without_the_data_there_is_a_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(voevent_packets, "SHARED_DATA", tmp_path)
    with pytest.raises(NoData, match="are missing next to this checkout"):
        load_packets()


def test_packets_of_both_versions_are_events_that_a_node_accepts(real: list[bytes]) -> None:
    assert len(real) == 14_196
    old = [packet for packet in real if b'version="1.1"' in packet[:1500]][:20]
    events = list(voevent_events(EventIdGenerator("publisher", 1), [*old, *real[:300]]))
    assert len(old) == 20
    assert Engine(ORACLE, load_dtds()).match(events).matches == 0


@pytest.mark.parametrize("mix", [STANDARD, HARDER])
def test_there_are_a_hundred_thousand_distinct_queries(sample: Sample, mix: Mix) -> None:
    assert len({text for _, text in voevent_queries(sample, 100_000, mix)}) == 100_000


def test_every_kind_of_query_is_accepted_by_the_front_end(sample: Sample) -> None:
    for mix in (STANDARD, HARDER):
        found = voevent_queries(sample, 500, mix)
        assert len({kind for kind, _ in found}) == 6
        for _, text in found:
            parse_query(text, NAMESPACES)


@pytest.mark.parametrize(
    ("mix", "least", "most"),
    [
        *further_cases((STANDARD, 0.7, 5.0)),
        pytest.param(HARDER, 60.0, 140.0, id="harder: 1% of the queries"),
    ],
)
def test_matches_a_packet_are_as_stated_for_ten_thousand_queries(
    sample: Sample, real: list[bytes], mix: Mix, least: float, most: float
) -> None:
    roots = [etree.fromstring(packet) for packet in random.Random(3).sample(real, 60)]
    found: Counter[str] = Counter()
    for kind, text in voevent_queries(sample, 10_000, mix)[::10]:
        xpath = etree.XPath(f"boolean({text})", namespaces=NAMESPACES, regexp=False)
        found[kind] += 10 * sum(bool(xpath(root)) for root in roots)
    assert least < sum(found.values()) / len(roots) < most
