"""Shapes that differ only in prefixes share a plan, and are matched together."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.event.stream import StreamPattern
from broker.matching.contract import Accepted
from broker.matching.engine.shape_plan import hash_structure
from broker.matching.query.query import parse_query
from broker.matching.reference_matcher import ReferenceMatcher
from broker.matching.switch import Switch
from broker.matching.undescribed import EVERY_TYPE_UNDESCRIBED
from tests.matching.conftest import KnownDtds, event

ALL = StreamPattern.parse(">")
URIS = {"x": "urn:x", "y": "urn:y"}
#: The last one has another structure.
FORMS = (
    '<a:track xmlns:a="urn:x" xmlns:b="urn:y"><b:speed b:unit="kt">{0}</b:speed></a:track>',
    '<b:track xmlns:b="urn:x" xmlns:a="urn:y"><a:speed a:unit="kt">{0}</a:speed></b:track>',
    '<track xmlns="urn:x" xmlns:n="urn:y"><n:speed n:unit="kt">{0}</n:speed></track>',
    '<a:track xmlns:a="urn:x" xmlns:b="urn:y"><a:speed b:unit="kt">{0}</a:speed></a:track>',
)
QUERIES = (
    "/x:track/y:speed > 4",
    '//y:speed[@y:unit = "kt"] = 7',
    "not(//y:speed)",
    'name(/*) = "a:track"',
    'name(//*[last()]) = "a:speed"',
    'name(//@*) = "b:unit"',
    'starts-with(name(/*/*), "n:") and //y:speed < 5',
    "(//y:speed)[1]/preceding::* or //y:speed = 3",
    'local-name(/*/*) = "speed"',
    'namespace-uri(/*/*) = "urn:y"',
)
#: A subscription by its query, or a batch of forms with values.
STEPS = st.lists(
    st.sampled_from(range(len(QUERIES)))
    | st.lists(st.tuples(st.sampled_from(range(len(FORMS))), st.integers(0, 9)), min_size=1),
    max_size=12,
)


def documents(batch: list[tuple[int, int]]) -> list[bytes]:
    return [
        event(FORMS[form].format(value).encode(), type_name="odd", sequence_number=number + 1)
        for number, (form, value) in enumerate(batch)
    ]


def make_engines() -> list[Any]:
    return [make(KnownDtds(), clock=lambda: 0.0) for make in (Switch, ReferenceMatcher)]


def match(engine: Any, batch: list[tuple[int, int]]) -> list[tuple[int, ...]]:
    verdicts = engine.match(documents(batch), variants=EVERY_TYPE_UNDESCRIBED)
    assert all(isinstance(each, Accepted) for each in verdicts)
    return [tuple(sorted(each.subscriptions)) for each in verdicts]


@given(STEPS)
def test_queries_and_prefixes_in_any_order_match_as_the_reference_says(steps: list[Any]) -> None:
    engines = make_engines()
    for step in steps:
        if isinstance(step, int):
            for engine in engines:
                engine.subscribe(ALL, parse_query(QUERIES[step], URIS))
        else:
            # All shapes are known in the second turn.
            for _ in range(2):
                found, expected = (match(engine, step) for engine in engines)
                assert found == expected


@pytest.mark.parametrize(("first", "plans"), [(QUERIES[0], 2), (QUERIES[3], 4)])
def test_a_plan_is_shared_unless_it_depends_on_prefixes(first: str, plans: int) -> None:
    engine = make_engines()[0]
    engine.subscribe(ALL, parse_query(first, URIS))
    batch = [(form, value) for value in range(8) for form in range(len(FORMS))]
    for _ in range(3):
        match(engine, batch)
    shapes = list(engine._shapes)
    assert len(shapes) == len(FORMS)
    assert len({hash_structure(shape) for shape in shapes}) == 2
    assert len({engine._plans.peek(shape) for shape in shapes}) == plans
    assert engine.statistics()["recognised"] >= 2 * len(batch)


def test_a_query_about_prefixes_is_right_after_plans_are_shared() -> None:
    switch, reference = make_engines()
    batch = [(form, value) for value in range(4) for form in range(len(FORMS))]
    for query in (QUERIES[0], *QUERIES[3:7]):
        for engine in (switch, reference):
            engine.subscribe(ALL, parse_query(query, URIS))
        for _ in range(3):
            assert match(switch, batch) == match(reference, batch)
