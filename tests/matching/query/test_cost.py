"""The cost model accepts ordinary queries and rejects multiplied costs."""

from __future__ import annotations

import time

import pytest
from lxml import etree

from broker.errors import QueryTooExpensive
from broker.matching.query.cost import estimate_cost
from broker.matching.query.limits import QueryLimits
from broker.matching.query.query import parse_query


@pytest.mark.parametrize(
    "text",
    [
        '/*[local-name()="VOEvent" and @role!="test"]',
        '//Param[@name="SC_Lat" and @value>600]',
        '//Who[AuthorIVORN="ivo://lofar.transients/"]',
        "/flight/flightleg[altitude > 300 and contains(@status, 'x')]",
        "//a[b[c[d[e[f]]]]]",
        "//group[.//x and .//y]",
        " or ".join(f"//id = {n}" for n in range(120)),
    ],
)
def test_ordinary_queries_are_affordable(text: str) -> None:
    assert parse_query(text).estimated_cost < QueryLimits().max_cost


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("//*[//*[//*]]", 9),
        ("//*[following::*[preceding::*]]", 18),
        ("//a[//b[//c]]", 9),
        ("count(//*[count(.//*[count(.//*) > 1]) > 1])", 29),
        ("//*[. = //*] and //*[. = //*] and //*[. = //*] and //*[. = //*]", 9),
    ],
)
def test_multiplied_costs_are_rejected_with_the_most_expensive_step(text: str, column: int) -> None:
    with pytest.raises(QueryTooExpensive, match="its most expensive step is") as caught:
        parse_query(text)
    assert caught.value.column == column


def test_operators_add_and_predicates_multiply() -> None:
    def cost(text: str) -> float:
        return parse_query(text).estimated_cost

    assert cost("//a or //b") == pytest.approx(2 * cost("//a"), rel=0.01)
    assert cost("//*[.//b]") > 500 * cost("//b")
    assert cost("a/b/c") < cost("//a")
    assert cost("//*[1]") < cost("//*[b]")
    assert cost("translate(/, 'abcdefghij', '')") > cost("translate(/, 'a', '')")


def test_a_larger_document_costs_more() -> None:
    expression = parse_query("//a[//b]").expression
    assert estimate_cost(expression, 10_000).cost > 50 * estimate_cost(expression, 1000).cost


def test_the_most_expensive_query_runs_in_bounded_time_on_the_model_document() -> None:
    """The bound is forty times the usual time: this is no speed test."""
    text = "//*[//*] and //*[//*]"
    assert parse_query(text).estimated_cost > 0.8 * QueryLimits().max_cost
    root = etree.fromstring("<a>" + "<b/>" * 999 + "</a>")
    before = time.process_time()
    assert etree.XPath(f"count(({text.split(' and ')[0]})[//zzz]) = 0", regexp=False)(root)
    assert time.process_time() - before < 2
