"""A query written as XPath again is the same query."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from broker.matching.explain.xpath_writer import XPathWriter
from broker.matching.partial.template import extract_templates
from broker.matching.query.query import parse_query
from tests.matching.test_oracle import _QUERIES
from tests.matching.unlimited import ANY_COST

BINDINGS = {"p": "urn:x"}


def again(text: str) -> str:
    return XPathWriter(text).write(parse_query(text, BINDINGS, ANY_COST).expression)


@settings(max_examples=400)
@given(text=_QUERIES)
def test_a_query_written_again_means_the_same(text: str) -> None:
    one, other = (parse_query(each, BINDINGS, ANY_COST) for each in (text, again(text)))
    assert [(i.template.key, str(i.literals)) for i in extract_templates(one)] == [
        (i.template.key, str(i.literals)) for i in extract_templates(other)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "/",
        ".",
        "..//a",
        "(/) and a",
        "string(/) = //b[/]",
        "//a",
        ".//a",
        "a//b/@c",
        "(//a)[1]/b",
        "(//a)//b[2]",
        "//*[@x = 'it']",
        '//*[@x = "it\'s"]',
        "1 - (2 - 3)",
        "1 - 2 - 3",
        "-(1 + 2) * 3",
        "--a",
        "(a or b) and c",
        "a or b and c",
        "a = (b = c)",
        "a < b = c",
        "(a | b)[1] | c",
        "p:a/p:*/ancestor::node()",
        "processing-instruction('t')/text()",
        "comment() | self::a",
        "$StreamId = concat('a', 'b', $ClientId)",
        "/Mspaces:Event[Mspaces:Summary]/a",
        "1e3 > .5",
        "0.1000000000000000055 = a",
        "id('x')/a",
        "descendant-or-self::node()",
    ],
)
def test_the_shortest_form_is_unchanged(text: str) -> None:
    assert again(text) == text
