"""Documents and queries of extreme sizes: bounded work, correct results."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from broker.dtd.dtd import Dtd
from broker.dtd.reference import DtdReference
from broker.errors import QueryTooExpensive, TooLarge
from broker.event.stream import StreamPattern
from broker.matching.contract import NO_VARIANTS, Accepted, Refused, Variants, Verdict
from broker.matching.document_limits import DocumentLimits
from broker.matching.partial.evaluator import MAX_VISITS
from broker.matching.query.limits import QueryLimits
from broker.matching.query.query import parse_query
from broker.matching.undescribed import without_dtds
from tests.matching.conftest import event, load_dtd
from tests.matching.engine.engine_pair import EnginePair
from tests.matching.engine.test_hostile import flight, leg
from tests.matching.partial.test_bounds import calls_of

MEGABYTE = 1024 * 1024
LARGE = DocumentLimits(max_bytes=8 * MEGABYTE, max_attributes=10_000, max_markup=1_000_000)
LONG = QueryLimits(max_length=MEGABYTE, max_cost=10**30)
#: Maximum Python calls for one document, whatever the document and the queries.
MAX_CALLS = 125 * MAX_VISITS

_DEEP_DTD = b"""
<!ENTITY % Mspaces.content ", x?">
<!ENTITY % Mspaces.envelope
         PUBLIC "-//xmlbroker//ELEMENTS Mspaces Envelope 1.1//EN" "mspaces-1.1.mod">
%Mspaces.envelope;
<!ELEMENT x (#PCDATA | x | y)*>
<!ATTLIST x a CDATA #IMPLIED>
<!ELEMENT y (#PCDATA)>
"""


@pytest.fixture(scope="module")
def deep_dtd() -> Dtd:
    """A type of elements nested to any depth."""
    return load_dtd("deep", "1.0", _DEEP_DTD)


def nested(depth: int, times: int = 1) -> bytes:
    """Return `times` chains of the element x, of this depth."""
    inner = ("<x>" * (depth - 1) + "<y>7</y>" + "</x>" * (depth - 1)) * times
    return event(f"<x>{inner}</x>".encode(), type_name="deep")


def matched(engines: EnginePair, document: bytes, variants: Variants = NO_VARIANTS) -> Accepted:
    """Return the verdict of both engines; check the calls of the engine under test."""
    verdicts: list[Verdict] = []
    calls = calls_of(lambda: verdicts.extend(engines.switch.match([document], variants=variants)))
    assert calls < MAX_CALLS, calls
    (verdict,) = verdicts
    assert isinstance(verdict, Accepted), verdict
    assert [verdict] == engines.reference.match([document], variants=variants)
    return verdict


def subscribe_long(engines: EnginePair, query: str) -> int:
    """Subscribe to a query above the default length."""
    parsed, everywhere = parse_query(query, None, LONG), StreamPattern.parse(">")
    number = engines.switch.subscribe(everywhere, parsed)
    assert engines.reference.subscribe(everywhere, parsed) == number
    engines.queries[number] = query[:80]
    return number


# --------------------------------------------------------------------------- deep and far

NESTED = [
    "//*//*//*//*",
    "//*//*//*//*//*//*//*//*",
    "//x//x//x//y = 7",
    "//x//x//x//x[y = 8]",
    "//x[.//x[.//x[.//y = 7]]]",
    "//*[*[*[*[*[*[*[*]]]]]]]",
    "//x/../../..//y/ancestor::x[200]",
    "(//x)[1000000]",
    "(//x)[position() > 1000000 or last() = 999999]",
    "//x[1000000]//y",
    "count(//x//y) = 1000000",
    "//y[. = //x]",
]


@pytest.mark.parametrize("query", NESTED)
def test_nested_descendants_and_far_positions_on_deep_documents(deep_dtd: Dtd, query: str) -> None:
    engines = EnginePair(deep_dtd)
    engines.subscribe(query)
    other = engines.subscribe("//y = 7")
    for document in (nested(240), nested(60, 8), nested(2, 300)):
        for _ in range(4):
            assert other in matched(engines, document).subscriptions
    assert engines.count("recognised") > 0


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (f"contains(., '{'x' * 100_000}')", "at most 4096 are allowed"),
        ("//*//*//*//*//*//*//*//*", "nodes of a document of a thousand"),
        ("//*[//*[//*]]", "nodes of a document of a thousand"),
        ("//*[following::*[following::*]]", "nodes of a document of a thousand"),
        (" or ".join("(//x)[1000000]" for _ in range(1_000)), "at most 4096 are allowed"),
        ("//x" * 300, "more than 256 location steps"),
    ],
    ids=["literal", "nested", "all in all", "following", "long", "steps"],
)
def test_too_long_or_expensive_queries_are_refused_at_subscription(query: str, reason: str) -> None:
    with pytest.raises(QueryTooExpensive, match=reason):
        parse_query(query)


# --------------------------------------------------------------------------- long and wide


def words(size: int) -> str:
    """Return letters without a pattern, equal for equal sizes."""
    return "".join(random.Random(size).choices("abcdefgh ", k=size))


@pytest.mark.parametrize("size", [100_000, 2_000_000])
def test_a_literal_of_a_hundred_kilobytes_is_found(flight_dtd: Dtd, size: int) -> None:
    engines = EnginePair(flight_dtd, document_limits=LARGE)
    literal = words(100_000)
    for form in ("contains(., '{}')", "starts-with(//remark, '{}')", "//remark = '{}'"):
        for number in range(3):
            subscribe_long(engines, form.format(f"{literal}{number}"))
    other = engines.subscribe("/flight/id = 1")
    for end in ("0", "1", "x", "1"):
        text = words(size - 100_000) + literal + end
        document = event(f"<flight><id>1</id><remark>{text}</remark></flight>".encode())
        for _ in range(2):
            (verdict,) = engines.match([document])
            assert isinstance(verdict, Accepted)
            assert other in verdict.subscriptions
    assert engines.matched > 12


def test_megabytes_are_refused_by_default(flight_dtd: Dtd) -> None:
    engines = EnginePair(flight_dtd, document_limits=DocumentLimits())
    other = engines.subscribe("//altitude > 5")
    large = event(b"<flight><id>" + b"1" * 3 * MEGABYTE + b"</id></flight>")
    usual = flight(leg(7))
    for _ in range(3):
        refused, accepted = engines.match([large, usual])
        assert isinstance(refused, Refused)
        assert isinstance(refused.error, TooLarge)
        assert isinstance(accepted, Accepted)
        assert accepted.subscriptions == (other,)


@pytest.mark.slow
def test_ten_thousand_attributes_are_answered_where_they_are_allowed(flight_dtd: Dtd) -> None:
    """The type has no DTD, since DTDs may not declare so many."""
    engines = EnginePair(flight_dtd, document_limits=LARGE)
    for query in ("count(//@*) = 10000", "//@a9999 = 9999", "//@*[. = 777]", "//@b", "//@a1 > 5"):
        engines.subscribe(query)
    for number in range(100):
        engines.subscribe(f"//@a{number * 100} = {number}")
        engines.subscribe(f"//@* = '{number}'")
    attributes = " ".join(f'a{n}="{n}"' for n in range(10_000))
    wide = event(f"<wide {attributes}/>".encode(), type_name="wide")
    unknown = without_dtds([DtdReference("wide", "1.0")])
    for _ in range(3):
        assert len(matched(engines, wide, unknown).subscriptions) > 100
    assert engines.count("shapes") == 0
    engines.match([flight(leg(7))])


# --------------------------------------------------------------------------- shapes


def test_a_type_without_recurring_documents_takes_no_memory_and_no_shapes_of_others(
    flight_dtd: Dtd, deep_dtd: Dtd
) -> None:
    engines = EnginePair(flight_dtd, deep_dtd)
    for query in ("//y = 7", "//x[@a > 3]/x", "//altitude > 5", "count(//x) > 40"):
        engines.subscribe(query)
    chance = random.Random(3)

    def random_document() -> bytes:
        """Return a document with a new tree: each step opens, closes or writes an element."""
        written, depth = ["<x>"], 1
        for _ in range(100):
            step = chance.randrange(3)
            if step == 0 and depth < 50:
                written.append(f'<x a="{chance.randrange(9)}">')
                depth += 1
            elif step == 1 and depth > 1:
                written.append("</x>")
                depth -= 1
            else:
                written.append(f"<y>{chance.randrange(9)}</y>")
        return event("".join([*written, "</x>" * depth]).encode(), type_name="deep")

    documents = [random_document() for _ in range(1_000)]
    assert len({document.translate(None, b"0123456789") for document in documents}) == 1_000
    usual = 0

    def match(some: list[bytes]) -> int:
        nonlocal usual
        recognised = engines.count("recognised")
        for document in some:
            engines.match([document, flight(leg(chance.randrange(9)))])
            usual += 1
        return engines.count("recognised") - recognised

    match(documents[:500])
    tracemalloc.start()
    try:
        match(documents[500:600])
        before, _ = tracemalloc.get_traced_memory()
        # All documents of the other type are recognised, and none of this type.
        assert match(documents[600:]) == 400
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 200_000
    assert engines.count("shapes") < 150
    assert engines.count("shape_bytes") < 2 * MEGABYTE
    assert engines.matched > 500
    counters = {each.type: each for each in engines.switch.type_counters()}
    assert counters["deep"].suspended
    assert not counters["flight"].suspended
    assert counters["flight"].recognised > usual - 5
