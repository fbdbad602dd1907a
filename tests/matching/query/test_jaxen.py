"""Expressions of jaxen's test suite: parser and evaluation against lxml (issue 2).

lxml has the last word. Cases where it differs from jaxen's expectation are listed here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from lxml import etree

from broker.errors import BadQuery
from broker.matching.query.query import parse_query
from broker.matching.xpath_evaluation import compile_query

#: At the context `/`, lxml's context node is the root element, jaxen's is the document.
CONTEXT_IS_THE_ROOT_ELEMENT = {
    "*",
    "./*",
    "child::*",
    "child::node()",
    "name()",
    "name(.)",
    "name(node())",
    "name(child::node())",
    "name(./*)",
    "name(*)",
    "processing-instruction()",
    "comment()",
    "descendant::*",
    "namespace::*",
}
#: Functions of jaxen or XSLT that XPath 1.0 lacks: rejected here, and by lxml during evaluation.
NOT_IN_XPATH = ("evaluate(", "document(", "upper-case(", "lower-case(", "ends-with(")
#: Variables of jaxen's test harness: rejected here, and by lxml during evaluation.
NOT_OUR_VARIABLES = ("$foo", "$artist")
CASES = 296


@attrs.frozen
class Case:
    document: str
    context: str
    node: etree._Element | None
    """None for context nodes that lxml lacks: texts, attributes, namespaces."""
    expression: str
    namespaces: dict[str, str]
    count: int | None
    value: str | None
    refused: bool

    @property
    def at_document(self) -> bool:
        return self.context == "/"


def cases(folder: Path) -> Iterator[Case]:
    for document in etree.parse(str(folder / "test" / "tests.xml")).getroot():
        if document.tag != "document":
            continue
        name = str(document.get("url")).removeprefix("xml/")
        tree = etree.parse(str(folder / name))
        for context in document.iterchildren("context"):
            select = str(context.get("select"))
            for test in context.iter("test", "valueOf"):
                yield _case(name, select, _context_node(tree, context, test), test)


def by_lxml(expression: str, namespaces: dict[str, str], node: Any) -> Any:
    return etree.XPath(expression, namespaces=namespaces, regexp=False)(node)


def _namespaces(element: etree._Element) -> dict[str, str]:
    return {prefix: uri for prefix, uri in element.nsmap.items() if prefix and prefix != "var"}


def _context_node(tree: Any, context: etree._Element, test: etree._Element) -> Any:
    node: Any = tree.getroot()
    outer = [context] if context.get("select") != "/" else []
    parent = test.getparent()
    for element in [*outer, *([parent] if parent is not None and parent.tag == "test" else [])]:
        if any(function in str(element.get("select")) for function in NOT_IN_XPATH):
            return None
        found = by_lxml(str(element.get("select")), _namespaces(element), node)
        node = found[0] if found else None
        if not (isinstance(node, etree._Element) and isinstance(node.tag, str)):
            return None
    return node


def _case(name: str, context: str, node: Any, test: etree._Element) -> Case:
    parent = test.getparent()
    inner = parent is not None and parent.tag == "test"
    return Case(
        document=name,
        context=f"{context} > {parent.get('select')}" if inner and parent is not None else context,
        node=node,
        expression=str(test.get("select")),
        namespaces=_namespaces(test),
        count=int(test.get("count", "-1")) if "count" in test.attrib else None,
        value=(test.text or "") if test.tag == "valueOf" else None,
        refused=test.get("exception") == "true",
    )


@pytest.fixture(scope="module")
def all_cases(shared_data: Path) -> list[Case]:
    return list(cases(shared_data / "xpath-jaxen"))


def _foreign(case: Case) -> bool:
    outside_strings = re.sub("'[^']*'", "''", case.expression)
    return any(part in outside_strings for part in (*NOT_IN_XPATH, *NOT_OUR_VARIABLES))


def test_the_suite_is_complete(all_cases: list[Case]) -> None:
    assert len(all_cases) == CASES
    assert sum(case.node is None for case in all_cases) <= 9


def test_expressions_that_lxml_compiles_are_accepted(all_cases: list[Case]) -> None:
    for case in all_cases:
        try:
            etree.XPath(case.expression, regexp=False)
            compiles = True
        except etree.XPathSyntaxError:
            compiles = False
        unbound = case.refused and "x:a" in case.expression
        expected = compiles and not unbound and not _foreign(case)
        try:
            parse_query(case.expression, case.namespaces)
            accepted = True
        except BadQuery as error:
            assert error.line == 1
            assert error.column >= 1
            accepted = False
        assert accepted == expected, case
        if case.refused:
            assert not accepted, case


class Document:
    """A document in place of an event."""

    def __init__(self, node: etree._Element) -> None:
        self._node = node
        self.envelope = node

    def document(self) -> etree._Element:
        return self._node


def test_evaluation_has_lxmls_boolean_value(all_cases: list[Case]) -> None:
    evaluated = 0
    for case in all_cases:
        if case.node is None or case.refused or _foreign(case):
            continue
        theirs = by_lxml(case.expression, case.namespaces, case.node)
        if isinstance(theirs, float):
            expected = theirs != 0 and theirs == theirs
        elif theirs == []:
            # lxml omits the document node from its lists; `count` includes it.
            expected = by_lxml(f"count({case.expression})", case.namespaces, case.node) > 0
        else:
            expected = bool(theirs)
        ours = compile_query(parse_query(case.expression, case.namespaces))
        assert ours.matches(Document(case.node)) == expected, case  # type: ignore[arg-type]
        evaluated += 1
    assert evaluated > 250


def test_lxml_and_jaxen_differ_only_in_the_listed_cases(all_cases: list[Case]) -> None:
    differing = set()
    for case in all_cases:
        if case.node is None or case.refused or _foreign(case):
            continue
        result = by_lxml(case.expression, case.namespaces, case.node)
        if case.value is not None:
            text = by_lxml(f"string({case.expression})", case.namespaces, case.node)
            agrees = text == case.value
        elif case.count is not None:
            agrees = len(result) == case.count
        else:
            continue
        if not agrees:
            assert case.at_document or case.context.startswith("/ > "), case
            differing.add(case.expression)
    assert differing == CONTEXT_IS_THE_ROOT_ELEMENT
