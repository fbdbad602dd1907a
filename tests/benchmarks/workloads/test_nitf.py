from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from lxml import etree

from benchmarks.routing.engine import ORACLE, Engine, load_dtds
from benchmarks.workloads import nitf_grammar as grammar_module
from benchmarks.workloads.nitf import LEVELS, nitf_queries
from benchmarks.workloads.nitf_documents import nitf_document, nitf_events
from benchmarks.workloads.nitf_grammar import Grammar, nitf_grammar
from benchmarks.workloads.voevent_packets import NoData
from broker.event.event_id import EventIdGenerator
from broker.matching.query.query import parse_query


@pytest.fixture(scope="module")
def grammar(shared_data: Path) -> Grammar:
    return nitf_grammar()


def test_without_the_data_there_is_a_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(grammar_module, "SHARED_DATA", tmp_path)
    with pytest.raises(NoData, match="is missing next to this checkout"):
        nitf_grammar()


def test_documents_are_valid_all_different_and_of_a_few_kilobytes(grammar: Grammar) -> None:
    events = list(nitf_events(grammar, EventIdGenerator("publisher", 1), 300))
    assert Engine(ORACLE, load_dtds()).match(events).matches == 0
    assert len(set(events)) == 300
    assert 1_500 < sum(map(len, events)) / len(events) < 5_000


def test_a_document_is_the_same_for_the_same_chance(grammar: Grammar) -> None:
    first, again = (nitf_document(grammar, random.Random(4)) for _ in range(2))
    assert first == again


def test_queries_are_distinct_and_of_at_most_six_levels(grammar: Grammar) -> None:
    found = nitf_queries(grammar, 10_000)
    assert len(set(found)) == 10_000
    assert nitf_queries(grammar, 100) == found[:100]
    for text in found[:500]:
        parse_query(text)
        assert 2 <= len(re.findall("//?[*a-z]", text)) <= LEVELS


def test_probabilities_are_those_of_the_published_workload(grammar: Grammar) -> None:
    found = nitf_queries(grammar, 10_000)
    steps = [step for text in found for step in re.findall(r"//?[*a-z]", text)]
    # Distinct queries have more rare steps than the walks that made them.
    assert 0.15 < sum(step.startswith("//") for step in steps) / len(steps) < 0.3
    assert 0.15 < sum(step.endswith("*") for step in steps) / len(steps) < 0.3
    assert 0.15 < sum("[" in text for text in found) / len(found) < 0.35


def test_some_queries_match_a_document_and_most_do_not(grammar: Grammar) -> None:
    roots = [etree.fromstring(nitf_document(grammar, random.Random(n))) for n in range(50)]
    texts = nitf_queries(grammar, 1_000)
    matches = sum(
        bool(xpath(root))
        for xpath in (etree.XPath(f"boolean({text})", regexp=False) for text in texts)
        for root in roots
    )
    assert 0.02 < matches / len(texts) / len(roots) < 0.4
