"""The worst-case bound exceeds libxml2's real work, and ordinary queries stay affordable."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.matching.query.limits import QueryLimits
from broker.matching.query.query import parse_query
from broker.matching.query.worst_case import DocumentSize, worst_case_cost
from tests.matching.partial.test_evaluator import QUERIES
from tests.matching.unlimited import ANY_COST

WIDE = DocumentSize(nodes=20_000, depth=4, bytes=80_000)
DEEP = DocumentSize(nodes=20_000, depth=250, bytes=140_000)
#: Texts between instructions.
MIXED = DocumentSize(nodes=40_000, depth=2, bytes=120_000, instructions=20_000)
LONG = DocumentSize(nodes=10_000, depth=4, bytes=200_000)


def worst(query: str, extent: DocumentSize) -> float:
    return worst_case_cost(parse_query(query, {"p": "urn:x"}, ANY_COST).expression, extent)


@pytest.mark.parametrize(
    ("query", "extent", "milliseconds"),
    [
        # Measured with libxml2 2.14 on adverse documents, and rounded down.
        ("//a|//b", WIDE, 500),
        ("//a/preceding-sibling::*[1]", WIDE, 140),
        ("//a/following-sibling::b", WIDE, 300_000),
        ("//b/..", WIDE, 100),
        ("//b/ancestor-or-self::*", WIDE, 900),
        ("//p//b", WIDE, 100),
        ("//a//a", DEEP, 14_000),
        ("//a/ancestor::a", DEEP, 14_000),
        ("//*[. = //b]", WIDE, 4_000),
        ("//a[not(following-sibling::a)]", WIDE, 1_400),
        ("/r/*[count(preceding-sibling::*) = 5]", WIDE, 1_400),
        ("//a[.. = 'x']", LONG, 1_200),
        ("//a[string-length(..) > 3]", LONG, 1_000),
        ("//a[contains(.., 'zz')]", LONG, 1_000),
        ("//processing-instruction()", WIDE, 1_400),
        ("string(//processing-instruction()) = 'x'", WIDE, 3_300),
        ("//a[not(comment())]", WIDE, 1_700),
        ("//comment() | //processing-instruction()", WIDE, 1_900),
        ("(//node())[1]", MIXED, 8_500),
        ("//text()", MIXED, 2_900),
    ],
)
def test_the_bound_exceeds_measured_times_of_libxml2(
    query: str, extent: DocumentSize, milliseconds: float
) -> None:
    assert worst(query, extent) * 1e-5 > milliseconds


@pytest.mark.parametrize(
    "query",
    [
        '/*[local-name()="VOEvent" and @role!="test"]',
        '//Param[@name="SC_Lat" and @value>600]',
        '//Who[AuthorIVORN="ivo://lofar.transients/"]',
        "/flight/flightleg[altitude > 300 and contains(@status, 'x')]",
        "//a/b/c[d = 1]/@e",
        "//a[.//b and count(c) > 1]",
        "//leg[following-sibling::*[1]/self::leg]",
        "//a[ancestor::b]",
        "//a[../@x]",
        "count(//a) > 3 and sum(//b) < 7",
        "/a/b[2]/following-sibling::b",
        "string(/a/b/c) = 'x' or starts-with(/a/d, 'y')",
        "//b/text()",
        "not(//comment())",
    ],
)
def test_ordinary_queries_are_affordable_on_large_events(query: str) -> None:
    """On an event of 64 KiB with 4,000 nodes."""
    assert worst(query, DocumentSize(4_000, 10, 65_536)) < QueryLimits().max_cost * 4


@given(
    query=QUERIES,
    nodes=st.integers(1, 5_000),
    depth=st.integers(1, 256),
    size=st.integers(1, 100_000),
    factor=st.integers(1, 4),
)
def test_the_bound_rises_with_the_document_size(
    query: str, nodes: int, depth: int, size: int, factor: int
) -> None:
    """So an estimate for a larger document holds for a smaller one."""
    least = worst(query, DocumentSize(nodes, depth, size))
    assert 0 < least <= worst(query, DocumentSize(factor * nodes, depth, size))
    assert least <= worst(query, DocumentSize(nodes, factor * depth, size))
    assert least <= worst(query, DocumentSize(nodes, depth, factor * size))


def test_nodes_between_elements_are_cheap_without_instructions() -> None:
    few, many = (DocumentSize(20_000, 4, 80_000, count) for count in (3, 10_000))
    for query in ("//text()", "not(//node())", "//b/comment()"):
        assert worst(query, few) < QueryLimits().max_cost < worst(query, many)


def test_predicates_are_counted_for_each_node() -> None:
    one, both = worst("//a[b]", WIDE), worst("//a[b][c]", WIDE)
    assert one < both < 2 * one
    assert worst("//a[//b]", WIDE) > WIDE.nodes**2


def test_searches_by_extension_functions_do_not_count() -> None:
    long, short = (worst(f"contains(/, '{'x' * length}')", LONG) for length in (1_000, 200))
    assert long < short
