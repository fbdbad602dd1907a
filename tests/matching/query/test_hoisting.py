"""Invariant calls are evaluated once, with the same result."""

from __future__ import annotations

import time

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from lxml import etree

from broker.matching.query.hoisting import HoistedQuery, hoist_invariant_calls
from broker.matching.query.query import parse_query
from tests.matching.unlimited import ANY_COST

CALLS = (
    "count(//b)",
    "count(//b[. > 2])",
    "sum(/a/b/@x)",
    "string(//c[last()])",
    "contains(/a/b, '(')",
    "not(//c[count(d) = 2])",
    "number(//b[2])",
)
RELATIVE = ("count(b)", "position()", "string()", "string-length(.)", "last()", "number(@x)")
TEXTS = st.sampled_from(["1", "2", "3", "4.5", "x", "", "a(b", ")"])


def hoist(text: str) -> HoistedQuery:
    return hoist_invariant_calls(text, parse_query(text, limits=ANY_COST).expression)


def evaluated(root: etree._Element, text: str) -> object:
    """Evaluate as the engine does."""
    found = hoist(text)
    values = {f"i{at}": etree.XPath(call)(root) for at, call in enumerate(found.calls)}
    return etree.XPath(f"boolean({found.text})")(root, **values)


@st.composite
def documents(draw: st.DrawFn) -> etree._Element:
    root = etree.Element("a")
    for _ in range(draw(st.integers(0, 5))):
        child = etree.SubElement(root, draw(st.sampled_from("bc")), x=draw(TEXTS))
        child.text = draw(TEXTS)
        for _ in range(draw(st.integers(0, 2))):
            etree.SubElement(child, draw(st.sampled_from("bd"))).text = draw(TEXTS)
    return root


@settings(max_examples=300)
@given(
    documents(),
    st.sampled_from(
        ["//b[{}]", "//*[{} > {}]", "/a/*[{}][{}]", "(//b)[{}]/@x", "//c[d = {}] | //b"]
    ),
    st.lists(st.sampled_from((*CALLS, *RELATIVE)), min_size=2, max_size=2),
)
def test_the_result_is_the_same(root: etree._Element, form: str, calls: list[str]) -> None:
    text = form.format(*calls)
    assert evaluated(root, text) == etree.XPath(f"boolean({text})")(root)


@pytest.mark.parametrize("call", CALLS)
def test_an_invariant_call_is_hoisted_out_of_a_predicate(call: str) -> None:
    assert hoist(f"//b[x > {call}]/@y") == HoistedQuery("//b[x > $i0]/@y", (call,))


@pytest.mark.parametrize(
    "text",
    [
        "count(//b) > 3",
        "//b[position() = last()]",
        "//b[string() = 'count(//b)']",
        "//b[count(c) > 2]",
        "//b[lang('en')]",
        "//b[. = //c]",
        "//b[true()]",
    ],
)
def test_context_dependent_calls_are_not_hoisted(text: str) -> None:
    assert hoist(text) == HoistedQuery(text, ())


def test_outermost_calls_are_hoisted_in_text_order() -> None:
    text = "//b[count(//c[count(//d) > 1]) > sum(//e)][contains(/x, ')')]"
    assert hoist(text) == HoistedQuery(
        "//b[$i0 > $i1][$i2]", ("count(//c[count(//d) > 1])", "sum(//e)", "contains(/x, ')')")
    )


def test_work_does_not_grow_with_the_square_of_the_document() -> None:
    root = etree.Element("a")
    for number in range(3_000):
        etree.SubElement(root, "b").text = str(number)
    began = time.process_time()
    assert evaluated(root, "//b[. > count(//b) + 5 * count(//b[. > 2])]") is False
    assert time.process_time() - began < 0.5
