from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from lxml import etree

from benchmarks.feeds import QUERIES, VALIDATIONS, report, share_of_first
from benchmarks.routing.rounds import BARE, Cost
from benchmarks.workloads import feed_documents
from benchmarks.workloads.feed_documents import NAMES
from benchmarks.workloads.feed_queries import feed_queries


@pytest.fixture
def no_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(feed_documents, "SHARED_DATA", tmp_path)


def payload(event: bytes) -> str:
    text: str = etree.canonicalize(etree.fromstring(event)[-1], rewrite_prefixes=True)
    return text


@pytest.mark.usefixtures("no_data")
@pytest.mark.parametrize("name", NAMES)
def test_a_feed_without_real_data_is_made_up(name: str) -> None:
    feed = feed_documents.feed_documents(name, 90)
    assert not feed.is_real
    assert len(set(map(payload, feed.events))) == 90
    assert [*map(payload, feed.events)] == [*map(payload, feed.rebound)]
    bindings = [str(etree.fromstring(each)[-1].nsmap) for each in feed.rebound]
    assert sum(one != other for one, other in pairwise(bindings)) >= 2
    queries = feed_queries(feed.events, 100)
    assert len(set(queries.texts)) == 100
    roots = [etree.fromstring(etree.tostring(etree.fromstring(e)[-1])) for e in feed.events]
    compiled = [etree.XPath(each, namespaces=dict(queries.namespaces)) for each in queries.texts]
    assert sum(any(query(root) for root in roots) for query in compiled) > 50


def cost(label: str, *micros: float) -> Cost:
    return Cost("CAP", label, QUERIES, micros, micros, 100, 50, 10, 0)


def test_a_floor_compares_the_rounds_one_by_one() -> None:
    first, *others = (each.label for each in VALIDATIONS)
    costs = [cost(BARE.label, 9, 9, 9), cost(first, 10, 40, 10), cost(others[0], 10, 40, 20)]
    costs += [cost(label, 25, 100, 10) for label in others[1:]]
    assert share_of_first(costs, others[0]) == 1
    assert share_of_first(costs, others[1]) == 0.4
    floors = report([], {"CAP": costs}, {"CAP": 1}).floors
    assert [each.is_met for each in floors] == [True, *[False] * (len(others) - 1)]
