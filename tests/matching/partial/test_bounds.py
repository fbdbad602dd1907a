"""No query and no document makes the partial evaluator work for long (F13)."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

import pytest
from lxml import etree

from broker.matching.partial import function_library
from broker.matching.partial.evaluation_input import EvaluationInput, EvaluationResult
from broker.matching.partial.evaluator import MAX_VISITS, evaluate_template
from broker.matching.partial.formula import is_decided, necessary_condition
from broker.matching.partial.template import extract_templates
from broker.matching.query.query import parse_query
from tests.matching.partial.slotted_tree import SlottedTree

FLAT = "<f>" + "<a x='1'>1</a>" * 2_000 + "</f>"
NESTED = "<f>" + "<a x='1'>1" * 200 + "t" + "</a>" * 200 + "</f>"
LEGS = "<f>" + "<a x='2'><b>1</b><c><d>3</d></c></a>" * 600 + "</f>"
#: Python calls during one evaluation; one unit of work is about a dozen.
MAX_CALLS = 100 * MAX_VISITS


def decided(query: str, xml: str) -> EvaluationResult:
    (instance,) = extract_templates(parse_query(query))
    root = SlottedTree(etree.fromstring(xml)).root
    return evaluate_template(instance.template, EvaluationInput(root, root, {}))


def calls_of(action: Callable[[], Any]) -> int:
    calls = 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize(
    ("query", "xml"),
    [
        ("//a[/ = 'x']", FLAT),
        ("//a[contains(/, @x)]", FLAT),
        ("//a[normalize-space(/) = 'x']", FLAT),
        ("string(//a[@x > 5]) = 'x'", FLAT),
        ("//a[string(//a[@x > 2]) = .]", FLAT),
        ("count(//a[count(//a) = 1]) = 1", FLAT),
        ("//a[sum(//a) > @x]", FLAT),
        ("//a[@x = 5][. = 6]", FLAT),
        ("/f[//a = 1]//a[. = 2]", FLAT),
        ("//a[@x > 1]//a[@x > 1]//a[@x > 1]", NESTED),
        ("//a[. = 'x']//a[. = 'y']", NESTED),
        ("//a[. = //a]", NESTED),
        ("//a[@x > 1]/ancestor::a[@x > 1]/descendant::a[@x > 1]", NESTED),
        ("//a[b = 1]/following-sibling::a[b = 2]", LEGS),
        ("//a[not(b = 1)]/preceding::a[b = 2]", LEGS),
        ("//a[b = ../a[1]/b]", LEGS),
        ("//a[b = 1 or @x = 2]/c[d = 2 or ../b = 3]", LEGS),
        ("concat(//a[@x > 1], //a[@x > 2], //a[@x > 3]) = 'x'", LEGS),
    ],
)
def test_an_evaluation_takes_bounded_work_for_any_query(query: str, xml: str) -> None:
    decision: list[EvaluationResult] = []
    assert calls_of(lambda: decision.append(decided(query, xml))) < MAX_CALLS
    assert 0 < decision[0].visits <= MAX_VISITS
    assert decision[0].reasons or is_decided(decision[0].formula)


@pytest.mark.parametrize("order", ["{} and {}", "{1} and {0}"])
def test_one_expensive_part_leaves_the_others_decided(order: str) -> None:
    decision = decided(order.format("//a[sum(../a) > @x]", "/f/a[1]/@x = 5"), FLAT)
    assert any("too many steps" in reason for reason in decision.reasons)
    assert not is_decided(decision.formula)
    assert necessary_condition(decision.formula) == decided("/f/a[1]/@x = 5", FLAT).formula


#: Python frames of an evaluation; its callers need some of the interpreter's 1,000.
MAX_FRAMES = 600


@pytest.mark.parametrize(
    "query",
    [
        "b" + " = 1" * 127,
        "//b" + " != //c" * 120,
        "//b" + " + 1" * 127 + " > 5",
        "string(" * 62 + "//a" + ")" * 62,
        "contains(" * 62 + "//a" + ", @x)" * 62,
        "(" * 62 + "//a | //b" + ")[@x]" * 62,
        "not(" * 62 + "//a[@x = 1]" + ")" * 62,
    ],
)
def test_a_query_of_maximum_depth_does_not_exhaust_the_stack(query: str) -> None:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + MAX_FRAMES)
    try:
        decision = decided(query, "<f><a x='1'>2</a><b>3</b></f>")
    finally:
        sys.setrecursionlimit(before)
    assert decision.reasons or is_decided(decision.formula)


NUMBERS = ("-1 div 0", "1 div 0", "0 div 0", "-5", "-0.5", "0.4", "0.5", "1.5", "2.5", "6", "3e9")


@pytest.mark.parametrize("start", NUMBERS)
def test_substrings_have_libxml2s_boundaries(start: str) -> None:
    context = etree.Element("a")

    def value(expression: str) -> Any:
        return etree.XPath(expression, regexp=False)(context)

    assert function_library.substring_from(b"12345", value(start)).decode() == value(
        f"substring('12345', {start})"
    )
    for count in (*NUMBERS, "-3e9"):
        assert function_library.substring(b"12345", value(start), value(count)).decode() == value(
            f"substring('12345', {start}, {count})"
        )


@pytest.mark.parametrize("text", [b"x", b"", b"-1", b"9" * 20, b"9" * 5_000, b"\xd9\xa5"])
def test_an_invalid_numeric_field_is_nan(text: bytes) -> None:
    value = function_library.parse_digits(text)
    assert value != value
    assert function_library.parse_digits(b"1700000000123") == 1700000000123.0
