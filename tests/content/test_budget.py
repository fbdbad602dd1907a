"""What queries may cost on the document at hand: how deep it is counts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from broker.content.contract import Accepted, IMatcher
from broker.content.query.query import parse_query
from broker.dtd.dtd import Dtd
from broker.event.stream import StreamPattern
from tests.content.conftest import ENGINES, KnownDtds, event, load_dtd

TWICE = "//*[ancestor::*[ancestor::*]]"
THRICE = "//*[ancestor::*[ancestor::*[ancestor::*]]]"
#: libxml2 takes seconds for what is refused here.
MAX_SECONDS = 0.5

_DEEP_DTD = b"""
<!ENTITY % Mspaces.content ", x?">
<!ENTITY % Mspaces.envelope
         PUBLIC "-//xmlbroker//ELEMENTS Mspaces Envelope 1.1//EN" "mspaces-1.1.mod">
%Mspaces.envelope;
<!ELEMENT x (#PCDATA | x)*>
"""


@pytest.fixture(scope="module")
def deep_dtd() -> Dtd:
    """Of elements in elements, as deep as one likes."""
    return load_dtd("deep", "1.0", _DEEP_DTD)


@pytest.fixture(params=sorted(ENGINES))
def engine(request: pytest.FixtureRequest, deep_dtd: Dtd, ticking: Callable[[], float]) -> IMatcher:
    return ENGINES[request.param](KnownDtds(deep_dtd), clock=ticking)


def chains(depth: int, number: int) -> bytes:
    """Elements in elements, so deep, so often."""
    inside = ("<x>" * depth + "</x>" * depth) * number
    return event(f"<x>{inside}</x>".encode(), type_name="deep")


def crowd(depth: int, number: int) -> bytes:
    """So many elements beside each other, so deep down."""
    inside = "<x>" * depth + "<x/>" * number + "</x>" * depth
    return event(f"<x>{inside}</x>".encode(), type_name="deep")


@pytest.mark.parametrize(
    ("query", "document"),
    [
        (THRICE, chains(100, 200)),
        (THRICE, crowd(200, 500)),
        (THRICE, crowd(150, 300)),
        (TWICE, crowd(200, 10_000)),
        ("count(//x[count(ancestor-or-self::*[ancestor::*]) > 1]) > 1", crowd(200, 10_000)),
    ],
)
def test_ancestors_of_ancestors_on_a_deep_document_are_too_expensive(
    engine: Any, query: str, document: bytes
) -> None:
    number = engine.subscribe(StreamPattern.parse(">"), parse_query(query))
    plain = engine.subscribe(StreamPattern.parse(">"), parse_query("//x[ancestor::x]"))
    before = time.process_time()
    (verdict,) = engine.match([document])
    assert time.process_time() - before < MAX_SECONDS
    assert isinstance(verdict, Accepted)
    assert verdict.subscriptions == (plain,)
    ((suspended, error),) = engine.suspended()
    assert suspended == number
    assert "would visit about" in error.text


@pytest.mark.parametrize(
    ("query", "document"),
    [
        (THRICE, chains(4, 5_000)),
        (THRICE, crowd(4, 20_000)),
        (THRICE, chains(30, 5)),
        (THRICE, chains(4, 1)),
        (TWICE, crowd(200, 1)),
        (TWICE, chains(20, 500)),
        ("//x[ancestor::x]", crowd(200, 20_000)),
        ("//x[. = 'ancestor'] or //x", crowd(4, 20_000)),
    ],
)
def test_ancestors_are_affordable_on_wide_and_on_small_documents(
    engine: Any, query: str, document: bytes
) -> None:
    number = engine.subscribe(StreamPattern.parse(">"), parse_query(query))
    (verdict,) = engine.match([document])
    assert isinstance(verdict, Accepted)
    assert engine.suspended() == []
    assert verdict.subscriptions == (number,)


def test_what_is_suspended_depends_on_each_document(engine: Any) -> None:
    number = engine.subscribe(StreamPattern.parse(">"), parse_query(TWICE))
    for document in (chains(4, 5_000), crowd(200, 1)):
        engine.match([document])
        assert engine.suspended() == []
    engine.match([crowd(200, 10_000)])
    assert [each for each, _ in engine.suspended()] == [number]
