"""Evaluation of parsed events without libxml2 agrees with lxml, in bounded work."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given, settings
from lxml import etree

from broker.matching.partial.exact_evaluation import NotEvaluated, evaluate_exactly
from broker.matching.partial.work_budget import WorkBudget
from broker.matching.query.query import parse_query
from broker.matching.query.tree import ValueType
from broker.matching.query.value_type import VARIABLE_TYPES
from broker.matching.xpath_evaluation import ParsedEvent
from tests.matching.partial.test_bounds import calls_of
from tests.matching.partial.test_evaluator import QUERIES, documents, oracle
from tests.matching.unlimited import ANY_COST

ENOUGH = 200_000


class Document:
    """A document in place of a `ParsedEvent`."""

    def __init__(self, root: etree._Element) -> None:
        self.envelope = root

    def document(self) -> etree._Element:
        return self.envelope

    def variable(self, name: str) -> Any:
        return "" if VARIABLE_TYPES[name] is ValueType.STRING else 0.0


def evaluate_query(query: str, root: etree._Element, max_work: int = ENOUGH) -> bool:
    parsed, event = parse_query(query, {"p": "urn:x"}, ANY_COST), cast(ParsedEvent, Document(root))
    return evaluate_exactly(parsed, event, WorkBudget(max_work))


@settings(max_examples=700)
@given(root=documents(), query=QUERIES)
def test_exact_results_agree_with_lxml(root: etree._Element, query: str) -> None:
    try:
        found = evaluate_query(query, root)
    except NotEvaluated:
        return
    assert found is oracle(query, root), (query, etree.tostring(root))


def flat(number: int) -> etree._Element:
    inside = "".join(f"<a x='{i}'>{i}</a><b>{i + 1}</b>" for i in range(number))
    return etree.fromstring(f"<f>{inside}</f>")


@pytest.mark.parametrize(
    "query",
    [
        "//a|//b",
        "//a[. = 'x']",
        "//b/..",
        "//a[../b]",
        "//a/following-sibling::*[1]/self::b",
        "//a/preceding-sibling::b[1] = 7",
        "//a = //b",
        "//a/@x = //b",
        "//a != //b",
        "not(//a/@x != //a[1]/@x)",
        "//a > //b",
        "//b <= //a[1]",
        "//a[count(//b) = 1000]",
        "sum(//a) = 499500",
        "string(//a[1000]) = '999'",
        "(//a | //b)[2000] = 1000",
        "//a[@x > 998][contains(., '9')]",
        "//b[not(following-sibling::a[1])] = 1000",
    ],
)
def test_large_documents_take_proportional_work(query: str) -> None:
    root = flat(1_000)
    assert evaluate_query(query, root, 20_000) is oracle(query, root)


@pytest.mark.parametrize(
    "query",
    [
        "//a/following-sibling::b",
        "//a[not(following-sibling::a)]",
        "//*[count(preceding::*) = 7]",
        "//a[following::b[preceding::a]]",
        "//a[string-length(..) > 3]",
    ],
)
def test_too_much_work_is_stopped_in_time(query: str) -> None:
    root = flat(5_000)
    with pytest.raises(NotEvaluated, match="too many steps"):
        evaluate_query(query, root, 20_000)
    assert (
        calls_of(lambda: pytest.raises(NotEvaluated, evaluate_query, query, root, 20_000)) < 600_000
    )


@pytest.mark.parametrize("query", ["id('x')", "lang('en')", "count(namespace::*) = 1"])
def test_nodes_without_a_tree_representation_are_not_evaluated(query: str) -> None:
    with pytest.raises(NotEvaluated):
        evaluate_query(query, flat(2))


@pytest.mark.parametrize(
    "operand",
    [
        "b{0}",
        "@b{0}",
        "starts-with(., 'q{0}')",
        "position() = {0} + 6000",
        "{0} + 1 = -{0}",
        "concat(., '{0}') = 'q'",
    ],
)
def test_operands_without_nodes_are_work(operand: str) -> None:
    root = flat(1_000)
    query = "//a[" + " or ".join(operand.format(number) for number in range(100)) + "]"
    with pytest.raises(NotEvaluated, match="too many steps"):
        evaluate_query(query, root, 20_000)
    assert (
        calls_of(lambda: pytest.raises(NotEvaluated, evaluate_query, query, root, 20_000)) < 600_000
    )
