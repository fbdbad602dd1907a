"""Requirements of queries, by example."""

from __future__ import annotations

import pytest

from broker.event.envelope import NAMESPACE
from broker.matching.partial.template import extract_templates
from broker.matching.paths.pattern import (
    MAX_ALTERNATIVES,
    MAX_CONJUNCTS,
    Requirements,
    require_both,
)
from broker.matching.paths.requirement_derivation import abstract_literals, derive_from_expression
from broker.matching.query.query import Query, parse_query


def derive_requirements(query: Query) -> Requirements:
    return derive_from_expression(query.expression, dict(query.namespaces))


FREE = "anything"


def _needs(text: str) -> tuple[str, bool]:
    found = derive_requirements(parse_query(text, {"p": "urn:p"}))
    return str(found), found.exact


@pytest.mark.parametrize(
    ("query", "needs"),
    [
        ("/a/b", "/a/b"),
        ("//b/@x", "//b/@x"),
        ("a//p:b/text()", "/*/a//{urn:p}b/text()"),
        ("/a[b]", "/a/b"),
        ("/a[.//b or @x]", "/a//b or /a/@x"),
        ("//a | //p:*", "//a or //{urn:p}*"),
        ("/a and /b", "/a and /b"),
        ("/*/self::a", "/a"),
        ("boolean(/a)", "/a"),
        ("true()", FREE),
        ("false()", "nothing"),
        ("/a/self::b", "nothing"),
        (
            "/Mspaces:Event/Mspaces:Summary",
            f"envelope:/{{{NAMESPACE}}}Event/{{{NAMESPACE}}}Summary",
        ),
    ],
)
def test_the_existence_of_linear_paths_is_decided_by_labels(query: str, needs: str) -> None:
    assert _needs(query) == (needs, True)


@pytest.mark.parametrize(
    ("query", "needs"),
    [
        ("//a > 5", "//a"),
        ("//a != 'x'", "//a"),
        ("//a = //b", "//a and //b"),
        ("number(//a) >= 0", "//a"),
        ("string(//a) = 'x'", "//a"),
        ("string(//a) != ''", "//a"),
        ("normalize-space(//a) = 'x'", "//a"),
        ("starts-with(//a, 'U')", "//a"),
        ("contains(//a, 'U')", "//a"),
        ("count(//a) > 0", "//a"),
        ("sum(//a) > 5", "//a"),
        ("string-length(//a) > 3", "//a"),
        ("//a * 2 > //b + 1", "//a and //b"),
        ("not(not(//a))", "//a"),
        ("-//a < 3", "//a"),
        ("/a/b[@x = 1 and c]/d", "/a/b/@x and /a/b/c and /a/b/d"),
        ("//b/../c", "//b and //c"),
        ("/a/b/../c", "/a/b and /a/c"),
        ("/a/b/following-sibling::c", "/a/b and /a/c"),
        ("//b/ancestor::a/@x", "//a/@x and //b"),
        ("/a/b/following::c/d", "//c/d and /a/b"),
        ("//a[1]", "//a"),
        ("/a/node()", "/a"),
        ("/a/node()/b", "/a/*/b"),
        ("$StreamId = 's' and //a", "//a"),
        ("(//a | /b)[c]/d", "//a/c and //a/d or /b/c and /b/d"),
    ],
)
def test_values_and_uncertain_axes_still_require_certain_patterns(query: str, needs: str) -> None:
    assert _needs(query) == (needs, False)


@pytest.mark.parametrize(
    "query",
    [
        "not(//a)",
        "starts-with(//a, '')",
        "string(//a) = ''",
        "string(//a) != 'x'",
        "count(//a) < 1",
        "number(//a) != 5",
        "//a = false()",
        "//a or $StreamId = 's'",
        "id('x')/a",
        "$TimeStamp > 5",
        "//a <= true()",
    ],
)
def test_conditions_that_hold_for_an_empty_node_set_require_nothing(query: str) -> None:
    assert _needs(query) == (FREE, False)


def test_excess_alternatives_are_dropped_and_excess_conjuncts_cut() -> None:
    half = " or ".join(f"//a{i}" for i in range(MAX_ALTERNATIVES))
    whole = derive_requirements(parse_query(half))
    assert len(whole.alternatives) == MAX_ALTERNATIVES and whole.exact
    assert _needs(f"{half} or //b") == (FREE, False)
    pair = derive_requirements(parse_query("//x or //y"))
    assert require_both(whole, pair) == pair.inexact()
    (cut,) = derive_requirements(
        parse_query("//a and //b/c and //d and //e and //f/@g")
    ).alternatives
    assert len(cut) == MAX_CONJUNCTS and {"//b/c", "//f/@g"} < set(map(str, cut))


@pytest.mark.parametrize("query", ["string('abc') = 'x'", "starts-with(string('abc'), 'x')"])
def test_a_literal_does_not_decide_the_requirements_of_its_template(query: str) -> None:
    (instance,) = extract_templates(parse_query(query))
    template = instance.template
    expression = abstract_literals(template.expression, template.parameter_at)
    assert derive_from_expression(expression, {}).alternatives
