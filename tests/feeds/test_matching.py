"""Feeds with and without a DTD, with their own and with other prefixes, against lxml."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from lxml import etree

from broker.event.envelope import Validation
from broker.event.stream import StreamPattern
from broker.matching.contract import NO_VARIANTS, Accepted
from broker.matching.query.query import parse_query
from broker.matching.reference_matcher import ReferenceMatcher
from broker.matching.switch import Switch
from broker.matching.undescribed import EVERY_TYPE_UNDESCRIBED
from tests.feeds.descriptions import describe
from tests.feeds.queries import make_queries
from tests.feeds.rebinding import XSI_TYPE, rebind
from tests.feeds.samples import MADE_UP, REAL_NAMES, Feed, real_feed
from tests.matching.conftest import KnownDtds, event, load_dtd

QUERIES = 50
MOST_PAYLOADS = 16


def canonical(payload: bytes) -> str:
    """Return the document without prefixes of its own."""
    text: str = etree.canonicalize(
        payload.decode(), rewrite_prefixes=True, qname_aware_attrs=[XSI_TYPE]
    )
    return text


def check(feed: Feed) -> None:
    chance = Random(feed.name)
    payloads = list(feed.payloads[:MOST_PAYLOADS])
    rebound = [rebind(payload, chance) for payload in payloads]
    assert [*map(canonical, payloads)] == [*map(canonical, rebound)]
    assert all(
        before != after
        for before, after in zip(payloads, rebound, strict=True)
        if b"xmlns" in before
    )
    queries = make_queries(payloads, QUERIES, chance)
    assert len(queries) > 30
    expected = [[query.matches(payload) for query in queries] for payload in payloads]
    # A later shape is met with bindings of an earlier one.
    met = [*zip(payloads, expected, strict=True), *zip(rebound, expected, strict=True)] * 3
    chance.shuffle(met)
    for kind, dtd in describe(feed):
        known = KnownDtds(*([load_dtd(kind.type, kind.version, dtd)] if dtd else []))
        variants = NO_VARIANTS if dtd else EVERY_TYPE_UNDESCRIBED
        for make in (ReferenceMatcher, Switch):
            engine: Any = make(known, clock=lambda: 0.0)
            numbers = [
                engine.subscribe(StreamPattern.parse(">"), parse_query(each.text, each.namespaces))
                for each in queries
            ]
            for payload, matches in met:
                (verdict,) = engine.match([event(payload, type_name=kind.type)], variants=variants)
                assert isinstance(verdict, Accepted), (kind, verdict, payload)
                found = [number in verdict.subscriptions for number in numbers]
                differing = [
                    (query.text, answer)
                    for query, answer, right in zip(queries, found, matches, strict=True)
                    if answer != right
                ]
                assert not differing, (kind, make.__name__, differing[:2], payload)
                is_described = verdict.header.validation is Validation.DESCRIBED
                assert is_described == (dtd is not None)
        assert bool(engine.statistics()["recognised"]) == feed.has_shapes, kind


@pytest.mark.parametrize("feed", MADE_UP, ids=lambda feed: feed.name)
def test_answers_are_those_of_lxml_with_and_without_a_dtd(feed: Feed) -> None:
    check(feed)


@pytest.mark.parametrize("name", REAL_NAMES)
def test_answers_about_real_events_are_those_of_lxml(name: str) -> None:
    check(real_feed(name))
