"""Cost limits of queries on a document; its depth counts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from broker.dtd.dtd import Dtd
from broker.event.stream import StreamPattern
from broker.matching.contract import Accepted, IMatcher
from broker.matching.document_limits import DocumentLimits
from broker.matching.query.query import parse_query
from tests.matching.conftest import ENGINES, KnownDtds, event, load_dtd
from tests.matching.processor_time import at_most

TWICE = "//*[ancestor::*[ancestor::*]]"
THRICE = "//*[ancestor::*[ancestor::*[ancestor::*]]]"
#: libxml2 needs seconds for the suspended queries.
MAX_SECONDS = 0.5

#: The queries are too slow on documents that a node refuses by default.
ANY_MARKUP = DocumentLimits(max_markup=1_000_000)
_DEEP_DTD = b"""
<!ENTITY % Mspaces.content ", x?">
<!ENTITY % Mspaces.envelope
         PUBLIC "-//xmlbroker//ELEMENTS Mspaces Envelope 1.1//EN" "mspaces-1.1.mod">
%Mspaces.envelope;
<!ELEMENT x (#PCDATA | x)*>
"""


@pytest.fixture(scope="module")
def deep_dtd() -> Dtd:
    """A DTD with nesting of any depth."""
    return load_dtd("deep", "1.0", _DEEP_DTD)


@pytest.fixture(params=sorted(ENGINES))
def engine(request: pytest.FixtureRequest, deep_dtd: Dtd, ticking: Callable[[], float]) -> IMatcher:
    return ENGINES[request.param](KnownDtds(deep_dtd), document_limits=ANY_MARKUP, clock=ticking)


@pytest.fixture(params=sorted(ENGINES))
def timed_engine(
    request: pytest.FixtureRequest, deep_dtd: Dtd, ticking: Callable[[], float]
) -> IMatcher:
    return ENGINES[request.param](
        KnownDtds(deep_dtd),
        document_limits=ANY_MARKUP,
        clock=ticking,
        processor_clock=time.thread_time,
    )


def chains(depth: int, number: int) -> bytes:
    """Return an event with `number` chains of nested elements of this depth."""
    inside = ("<x>" * depth + "</x>" * depth) * number
    return event(f"<x>{inside}</x>".encode(), type_name="deep")


def crowd(depth: int, number: int) -> bytes:
    """Return an event with `number` siblings at this depth."""
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
def test_nested_ancestors_on_a_deep_document_are_too_expensive(
    timed_engine: Any, query: str, document: bytes
) -> None:
    number = timed_engine.subscribe(StreamPattern.parse(">"), parse_query(query))
    plain = timed_engine.subscribe(StreamPattern.parse(">"), parse_query("//x[ancestor::x]"))
    with at_most(MAX_SECONDS):
        (verdict,) = timed_engine.match([document])
    assert isinstance(verdict, Accepted)
    assert verdict.subscriptions == (plain,)
    ((suspended, error),) = timed_engine.take_suspended()
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
def test_ancestors_are_affordable_on_wide_and_small_documents(
    engine: Any, query: str, document: bytes
) -> None:
    number = engine.subscribe(StreamPattern.parse(">"), parse_query(query))
    (verdict,) = engine.match([document])
    assert isinstance(verdict, Accepted)
    assert engine.take_suspended() == []
    assert verdict.subscriptions == (number,)


def test_suspension_depends_on_the_document(engine: Any) -> None:
    number = engine.subscribe(StreamPattern.parse(">"), parse_query(TWICE))
    for document in (chains(4, 5_000), crowd(200, 1)):
        engine.match([document])
        assert engine.take_suspended() == []
    engine.match([crowd(200, 10_000)])
    assert [each for each, _ in engine.take_suspended()] == [number]


# --------------------------------------------------------------------------- quadratic and cubic

#: libxml2 needs up to several minutes for these queries.
QUICK = 3.0
_WIDE_DTD = _DEEP_DTD.replace(b"(#PCDATA | x)*", b"(#PCDATA | x | a | b)*") + (
    b"<!ELEMENT a (#PCDATA | a)*><!ELEMENT b (#PCDATA)>"
)


@pytest.fixture(scope="module")
def wide_dtd() -> Dtd:
    """A DTD with any number of siblings."""
    return load_dtd("wide", "1.0", _WIDE_DTD)


def wide(inside: str) -> bytes:
    return event(f"<x>{inside}</x>".encode(), type_name="wide")


BESIDE = wide("<a/><b/>" * 10_000)
ONE_EACH = wide("<x><b>1</b></x>" * 10_000)
WITH_A_LONG_TEXT = wide("<a/>" * 10_000 + f"<b>{'y' * 100_000}</b>")
INSIDE = wide(("<a>" * 200 + "</a>" * 200) * 100)


def match_quickly(engine: Any, document: bytes) -> Accepted:
    """Match the document within a short time and return the verdict."""
    with at_most(QUICK):
        (verdict,) = engine.match([document])
    assert isinstance(verdict, Accepted)
    return verdict


@pytest.fixture(params=sorted(ENGINES))
def wide_engine(
    request: pytest.FixtureRequest, wide_dtd: Dtd, ticking: Callable[[], float]
) -> IMatcher:
    return ENGINES[request.param](KnownDtds(wide_dtd), document_limits=ANY_MARKUP, clock=ticking)


@pytest.mark.parametrize(
    ("query", "document"),
    [
        ("//a/following-sibling::b", BESIDE),
        ("//a[following-sibling::b/following-sibling::a]", BESIDE),
        ("//a[not(following-sibling::a)]", BESIDE),
        ("//*[. = //b]", BESIDE),
        ("//a[string-length(..) > 3]", WITH_A_LONG_TEXT),
        ("//a[starts-with(.., 'z')]", WITH_A_LONG_TEXT),
        ("//a/ancestor::a", INSIDE),
    ],
)
def test_very_slow_queries_of_libxml2_are_suspended(
    wide_engine: Any, query: str, document: bytes
) -> None:
    number = wide_engine.subscribe(StreamPattern.parse(">"), parse_query(query))
    other = wide_engine.subscribe(StreamPattern.parse(">"), parse_query("//b or //a"))
    assert match_quickly(wide_engine, document).subscriptions == (other,)
    ((suspended, error),) = wide_engine.take_suspended()
    assert suspended == number
    assert "would visit about" in error.text


@pytest.mark.parametrize(
    ("query", "document", "expected"),
    [
        ("//a|//b", BESIDE, True),
        ("//a/..", BESIDE, True),
        ("not(//a/..)", BESIDE, False),
        ("//a/preceding-sibling::*[1] = 'x'", BESIDE, False),
        ("//a[following-sibling::*[1]/self::b]", BESIDE, True),
        ("//a[../b]", BESIDE, True),
        ("//a = //b", BESIDE, True),
        ("//a != //b", BESIDE, False),
        ("//b/..", ONE_EACH, True),
        ("//x/x//b = 2", ONE_EACH, False),
        ("//b/ancestor-or-self::*", ONE_EACH, True),
        ("//a[.. = 'x']", WITH_A_LONG_TEXT, False),
        ("//a//a", INSIDE, True),
    ],
)
def test_slow_queries_of_libxml2_are_answered_without_it(
    wide_engine: Any, query: str, document: bytes, expected: bool
) -> None:
    number = wide_engine.subscribe(StreamPattern.parse(">"), parse_query(query))
    assert match_quickly(wide_engine, document).subscriptions == ((number,) if expected else ())
    assert wide_engine.take_suspended() == []


SLOW_QUERIES = (
    "//a[following-sibling::b[{}]/following-sibling::a]",
    "//a/following-sibling::b = {}",
    "//*[. = //b[. > {}]]",
    "//a[not(following-sibling::a = {})]",
    "//a[../b = {}]",
    "//b[preceding::a = {}]",
)


@pytest.mark.parametrize("document", [BESIDE, wide("<a/><b/>" * 700)], ids=["large", "small"])
def test_thousand_queries_built_to_be_slow_are_suspended(wide_dtd: Dtd, document: bytes) -> None:
    """libxml2 would need days for all of them."""
    engine = ENGINES["switch"](
        KnownDtds(wide_dtd),
        document_limits=ANY_MARKUP,
        clock=time.perf_counter,
        processor_clock=time.thread_time,
    )
    everywhere = StreamPattern.parse(">")
    for number in range(1_000):
        text = SLOW_QUERIES[number % len(SLOW_QUERIES)].format(number)
        engine.subscribe(everywhere, parse_query(text), "greedy")
    others = [
        engine.subscribe(everywhere, parse_query(f"//b[. = {n}] or //a"), f"other-{n}")
        for n in range(50)
    ]
    with at_most(4 * QUICK):
        for _ in range(2):
            (verdict,) = engine.match([document])
            assert isinstance(verdict, Accepted)
            assert {*others} <= {*verdict.subscriptions}
    assert len(engine.take_suspended()) > 500
